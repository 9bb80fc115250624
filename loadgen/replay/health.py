"""Health of the generator itself: was it the limit?"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadgen.percentiles import nearest_rank
from loadgen.replay.clock import RunClock
from loadgen.replay.connection_count import ConnectionCount, num_ports
from loadgen.replay.timer import make_timer

_PROBE_EVERY_NS = 20_000_000


@dataclass(frozen=True, slots=True)
class Health:
    """How one worker's process fared during the run.

    loop_lag: how much later than asked a timer fired, sampled each 20 ms: seconds at p50, p99 and the worst.
    cpu_s over wall_s: the share of one core that was used. gc_pause_max_s: the longest collection.
    num_connections: opened, those before the start included. most_connections: open at one time. num_ports: what
    this machine has for connections to one address, of all workers on it together. None: not known.
    """

    cpu_s: float
    wall_s: float
    loop_lag_p50_s: float | None
    loop_lag_p99_s: float | None
    loop_lag_max_s: float | None
    gc_pause_max_s: float
    max_rss_bytes: int
    num_connections: int | None = None
    most_connections: int | None = None
    num_ports: int | None = None


class HealthMeter:
    """Measures from its making until `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: RunClock) -> None:
        self._clock = clock
        self._lags_ns: list[int] = []
        self._gc_pause_max_ns = 0
        self._gc_started_ns = 0
        self._cpu_started_s = time.process_time()
        self._started_ns = clock.now_ns()
        self._due_ns = self._started_ns
        self._timer = make_timer(loop, self._probe)
        gc.callbacks.append(self._on_gc)
        self._arm()

    def stop(self, count: ConnectionCount) -> Health:
        self._timer.close()
        gc.callbacks.remove(self._on_gc)
        lags_s = np.asarray(self._lags_ns, dtype=np.float64) / 1e9
        p50, p99, worst = nearest_rank(lags_s, [50, 99, 100])
        # Linux counts kilobytes, macOS bytes.
        rss_unit = 1 if sys.platform == "darwin" else 1024
        return Health(
            cpu_s=time.process_time() - self._cpu_started_s,
            wall_s=(self._clock.now_ns() - self._started_ns) / 1e9,
            loop_lag_p50_s=p50,
            loop_lag_p99_s=p99,
            loop_lag_max_s=worst,
            gc_pause_max_s=self._gc_pause_max_ns / 1e9,
            max_rss_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * rss_unit,
            num_connections=count.num_opened,
            most_connections=count.most_open,
            num_ports=num_ports(),
        )

    def _arm(self) -> None:
        self._due_ns += _PROBE_EVERY_NS
        self._timer.arm(self._clock.monotonic_ns(self._due_ns))

    def _probe(self) -> None:
        now_ns = self._clock.now_ns()
        self._lags_ns.append(now_ns - self._due_ns)
        # A stall longer than the step is one long lag, not many.
        self._due_ns = max(self._due_ns, now_ns - _PROBE_EVERY_NS)
        self._arm()

    def _on_gc(self, phase: str, _info: dict[str, Any]) -> None:
        if phase == "start":
            self._gc_started_ns = time.monotonic_ns()
        else:
            self._gc_pause_max_ns = max(self._gc_pause_max_ns, time.monotonic_ns() - self._gc_started_ns)
