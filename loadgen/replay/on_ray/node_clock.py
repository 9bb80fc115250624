"""The monotonic clock of a node, asked over Ray's own connections."""

from __future__ import annotations

import os
import platform
import socket
import time
from pathlib import Path
from typing import Any

import ray

import loadgen
from loadgen.replay.clock_offset import ClockOffset, ClockReading, offset_from
from loadgen.replay.on_ray.niceness import take_back_niceness

_ANSWER_WITHIN_S = 5.0


class NodeClock:
    """Actor: one a node, beside its workers, so that asking for the time does not hold up sending."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def facts(self) -> dict[str, Any]:
        """What this node is. niceness: what Ray adds to that of its workers, and they cannot undo."""
        return {
            "host": socket.gethostname(),
            "loadgen": loadgen.__version__,
            "python": platform.python_version(),
            "cpu_count": os.cpu_count(),
            "cpu_model": _cpu_model(),
            "boot_id": _boot_id(),
            "niceness": take_back_niceness(),
        }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
        platform.machine(),
    )


def _boot_id() -> str:
    """The same for containers and nodes that are on one machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return socket.gethostname()


def measured_offset(clock: Any, num_questions: int) -> ClockOffset:
    """The offset of a node's clock, by so many questions to its NodeClock. Blocks.

    Raises ray.exceptions.RayError when the node is gone or does not answer in time.
    """
    readings = []
    for _ in range(num_questions):
        asked_ns = time.monotonic_ns()
        told_ns = ray.get(clock.now_ns.remote(), timeout=_ANSWER_WITHIN_S)
        readings.append(ClockReading(asked_ns, told_ns, time.monotonic_ns()))
    return offset_from(readings)
