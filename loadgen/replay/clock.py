"""RunClock: ns since the run's start on the machine's monotonic clock, which all its processes share."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(slots=True)
class RunClock:
    """Negative before the start. Setting the wall clock changes nothing here.

    start_monotonic_ns: the agreed start, the same for every worker on this machine. A worker's clock is set to it
    once it is agreed on.
    """

    start_monotonic_ns: int

    def now_ns(self) -> int:
        return time.monotonic_ns() - self.start_monotonic_ns

    def monotonic_ns(self, moment_ns: int) -> int:
        """The machine's monotonic time of a moment of the run."""
        return moment_ns + self.start_monotonic_ns


def clock_starting_in(delay_s: float) -> tuple[RunClock, int]:
    """A clock whose zero lies `delay_s` ahead, and the wall time (unix ns) of that zero: the run's only one."""
    delay_ns = round(delay_s * 1e9)
    return RunClock(time.monotonic_ns() + delay_ns), time.time_ns() + delay_ns
