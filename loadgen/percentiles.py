"""Percentiles by nearest rank (inverted CDF): each is a value that was observed, and p100 is the maximum."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

# The name of the method, for reports and schemas.
METHOD = "nearest rank (inverted CDF)"


def nearest_rank(values: npt.ArrayLike, percents: Sequence[float]) -> list[float | None]:
    """The smallest value that at least `percent` % of all values do not exceed, for each of `percents`.

    values: numbers in any order, any unit, none missing. percents: 0 to 100; 0 gives the minimum.
    No values give None for each percent. Integers come back as whole floats, exact to 2**53.
    """
    return ranked(np.sort(np.asarray(values), axis=None), percents)


def ranked(ascending: npt.NDArray[Any], percents: Sequence[float]) -> list[float | None]:
    """nearest_rank of values that are in order already."""
    if ascending.size == 0:
        return [None for _ in percents]
    return [float(ascending[_rank(percent, ascending.size) - 1]) for percent in percents]


def _rank(percent: float, num_values: int) -> int:
    """ceil(percent / 100 * num_values), at least 1, in exact arithmetic.

    In floats 7 / 100 * 100 is a little above 7, so its ceiling would be 8.
    """
    share = Fraction(str(percent)) / 100
    assert 0 <= share <= 1, f"percent {percent} is not within 0 to 100"
    return max(1, -(-share.numerator * num_values // share.denominator))
