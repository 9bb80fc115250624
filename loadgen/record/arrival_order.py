"""In which order arrivals stand in a log, and what that tells of its clock."""

from __future__ import annotations

from math import gcd

import numpy as np
import numpy.typing as npt

Moments = npt.NDArray[np.int64]

# Lines are written at completion, a little out of order by buffers and threads: only where so many lines in a row
# stand this far behind an earlier one did the clock itself go back.
_STEP_NS = 2 * 10**9
_LINES_BEHIND = 16


class ArrivalOrder:
    """Collects, batch by batch: rows behind a later arrival, the finest step of stamps, and steps of the clock.

    num_out_of_order: rows that a sort moves forward. num_clock_steps, largest_step_ns: how often, and by how
    much at most, the moments of writing went back and stayed back.
    """

    def __init__(self) -> None:
        self._latest_ns = -(2**63)
        self._divisor = 0
        self.num_out_of_order = 0
        self.num_clock_steps = 0
        self.largest_step_ns = 0

    def add(self, arrival_ns: Moments, written_ns: Moments | None) -> None:
        """Add a batch of one file: arrivals, and when their lines were written where that is known."""
        if not arrival_ns.size:
            return
        latest_ns = np.maximum(np.maximum.accumulate(arrival_ns), self._latest_ns)
        self.num_out_of_order += int(np.count_nonzero(arrival_ns < latest_ns))
        self._latest_ns = int(latest_ns[-1])
        if self._divisor != 1:
            self._divisor = gcd(self._divisor, int(np.gcd.reduce(arrival_ns)))
        if written_ns is not None:
            for step_ns in clock_steps_ns(written_ns):
                self.num_clock_steps += 1
                self.largest_step_ns = max(self.largest_step_ns, step_ns)

    @property
    def finest_step_ns(self) -> int | None:
        """The largest power of ten, 1 ns to 1 s, that divides every moment; None without a moment above 0."""
        if self._divisor <= 0:
            return None
        steps: list[int] = [10**power for power in range(9, -1, -1)]
        return next(step for step in steps if self._divisor % step == 0)


def clock_steps_ns(written_ns: Moments) -> list[int]:
    """By how much the moments of writing go back, for each time that they do so and stay back."""
    steps: list[int] = []
    latest_ns = np.maximum.accumulate(written_ns)
    behind_ns = latest_ns - written_ns
    row = 0
    while row < written_ns.size:
        found = np.flatnonzero(behind_ns[row:] > _STEP_NS)
        if not found.size:
            break
        start = row + int(found[0])
        following = written_ns[start : start + _LINES_BEHIND]
        back_ns = int(latest_ns[start] - following.max())
        if following.size == _LINES_BEHIND and back_ns > _STEP_NS:
            steps.append(back_ns)
            # The clock that holds from here on has its own latest moment.
            latest_ns = np.maximum.accumulate(written_ns[start:])
            behind_ns = np.concatenate([np.zeros(start, dtype=np.int64), latest_ns - written_ns[start:]])
            latest_ns = np.concatenate([written_ns[:start], latest_ns])
            row = start + 1
        else:
            row = start + 1
    return steps
