"""The engine's clock: the machine's monotonic one, or a simulated one that jumps."""

from __future__ import annotations

import os
import time
from typing import Protocol


class Clock(Protocol):
    """Where the engine reads time; integer nanoseconds, so that deadlines compare exactly."""

    def now_ns(self) -> int:
        """Monotonic now."""
        ...

    def cpu_ns(self) -> int:
        """CPU time used so far by what computes."""
        ...

    def cpu_wait_ns(self) -> int | None:
        """Time so far in which it could have run, but other programs had the CPU; None where nobody tells."""
        ...


class WallClock:
    """CLOCK_MONOTONIC, shared by all processes of this machine.

    counts_threads: CPU time of the whole process, needed when several threads compute. Waits for a CPU are those of
    the thread that makes the clock.
    """

    def __init__(self, *, counts_threads: bool = False) -> None:
        self._counts_threads = counts_threads
        try:
            self._schedstat: int | None = os.open("/proc/thread-self/schedstat", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._schedstat = None  # not Linux, or a kernel without it

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def cpu_ns(self) -> int:
        return time.process_time_ns() if self._counts_threads else time.thread_time_ns()

    def cpu_wait_ns(self) -> int | None:
        # Time on a CPU, time waiting for one, and how often.
        return None if self._schedstat is None else int(os.pread(self._schedstat, 128, 0).split()[1])


class SimClock:
    """A clock that stands still until someone advances it."""

    def __init__(self) -> None:
        self._now_ns = 0
        self._busy_ns = 0

    def now_ns(self) -> int:
        return self._now_ns

    def cpu_ns(self) -> int:
        return self._busy_ns

    def cpu_wait_ns(self) -> int | None:
        return 0

    def work(self, length_ns: int) -> None:
        """Let `length_ns` of computing pass."""
        self._now_ns += length_ns
        self._busy_ns += length_ns

    def jump_to(self, moment_ns: int) -> None:
        """Let idle time pass until `moment_ns`; a moment in the past changes nothing."""
        self._now_ns = max(self._now_ns, moment_ns)
