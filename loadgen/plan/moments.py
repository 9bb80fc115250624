"""Moments: ascending int64 nanoseconds on one time line, and what is asked of them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

# int64 (num_moments,), ascending, ns from the start of the time line.
Moments = npt.NDArray[np.int64]

# 127 years: sums of two such times still fit into int64 nanoseconds.
LONGEST_S = 4e9


def to_ns(duration_s: float) -> int:
    """The nearest nanosecond; what is longer than LONGEST_S counts as that."""
    return round(min(duration_s, LONGEST_S) * 1e9)


def busiest(moments: Moments, width_ns: int) -> tuple[int, int]:
    """First and last (exclusive) index within the interval [t, t + width) that holds most of `moments`.

    The earliest of equals; t is a moment itself, since sliding it to the next one loses none.
    """
    ends = np.searchsorted(moments, moments + width_ns, side="left")
    first = int(np.argmax(ends - np.arange(moments.size)))
    return first, int(ends[first])
