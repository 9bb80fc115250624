"""The stretch of a log with the most arrivals."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


class BusiestWindow:
    """Finds the half-open window of `width_ns` with the most arrivals, which come ascending and in parts.

    count: arrivals in it. start_ns: its first arrival, that of the earliest such window; None without arrivals.
    """

    def __init__(self, width_ns: int) -> None:
        self._width_ns = width_ns
        self._tail = np.empty(0, dtype=np.int64)
        self.count = 0
        self.start_ns: int | None = None

    def add(self, arrival_ns: npt.NDArray[np.int64]) -> None:
        """Add arrivals, none before those added last."""
        if not arrival_ns.size:
            return
        moments_ns = np.concatenate([self._tail, arrival_ns])
        # For each arrival as the last of its window: the first one less than a width before it.
        firsts = np.searchsorted(moments_ns, moments_ns - self._width_ns, side="right")
        counts = np.arange(moments_ns.size) - firsts + 1
        last = int(np.argmax(counts))
        if counts[last] > self.count:
            self.count = int(counts[last])
            self.start_ns = int(moments_ns[firsts[last]])
        self._tail = moments_ns[firsts[-1] :]
