"""In which order arrivals stand in a log, and what that tells of its clock."""

from __future__ import annotations

from math import gcd

import numpy as np
import numpy.typing as npt

Moments = npt.NDArray[np.int64]

# Lines stand a little out of order by buffers and threads: only where so many in a row are this far behind an
# earlier one did the clock itself go back.
_STEP_NS = 2 * 10**9
_LINES_BEHIND = 16
# With so many lines before the one above them, a log is in no order of time at all.
_UNSORTED = 0.25


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

    def add(self, arrival_ns: Moments, end_ns: Moments | None) -> None:
        """Add a batch of one file: arrivals, and completions where they are known.

        Lines were written in the order of one of the two; the one that they follow better tells of the clock.
        """
        if not arrival_ns.size:
            return
        latest_ns = np.maximum(np.maximum.accumulate(arrival_ns), self._latest_ns)
        self.num_out_of_order += int(np.count_nonzero(arrival_ns < latest_ns))
        self._latest_ns = int(latest_ns[-1])
        if self._divisor != 1:
            self._divisor = gcd(self._divisor, int(np.gcd.reduce(arrival_ns)))
        written_ns = min((arrival_ns, arrival_ns if end_ns is None else end_ns), key=_share_descending)
        if _share_descending(written_ns) < _UNSORTED:
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
    """By how much the moments of writing go back, for each time that they do so and stay back for 16 lines."""
    if written_ns.size <= _LINES_BEHIND:
        return []
    latest_ns = np.maximum.accumulate(written_ns)
    num_starts = written_ns.size - _LINES_BEHIND
    following_ns = written_ns[1 : num_starts + 1].copy()
    for distance in range(2, _LINES_BEHIND + 1):
        np.maximum(following_ns, written_ns[distance : num_starts + distance], out=following_ns)
    back_ns = latest_ns[:num_starts] - following_ns
    is_behind = back_ns > _STEP_NS
    starts = np.flatnonzero(is_behind & ~np.concatenate([[False], is_behind[:-1]]))
    return [int(step_ns) for step_ns in back_ns[starts]]


def _share_descending(moments_ns: Moments) -> float:
    return float(np.mean(moments_ns[1:] < moments_ns[:-1])) if moments_ns.size > 1 else 0.0
