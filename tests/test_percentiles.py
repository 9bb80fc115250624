"""Percentiles by nearest rank."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.percentiles import nearest_rank

finite = st.floats(allow_nan=False, allow_infinity=False, width=32)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        (range(1, 101), 50, 50),
        (range(1, 101), 99, 99),  # F29: not the maximum
        (range(1, 101), 7, 7),  # F29: 7 / 100 * 100 is above 7 in floats
        (range(1, 101), 100, 100),
        (range(1, 101), 0, 1),
        (range(1, 101), 99.9, 100),
        (range(1, 1001), 99.9, 999),
        (range(1, 1001), 0.1, 1),
        ([230, 240, 250, 270, 320, 340, 596], 99, 596),  # F30
        ([230, 240, 250, 270, 320, 340, 596], 50, 270),
        ([3, 1, 2], 50, 2),
        ([True, False], 100, 1),
    ],
)
def test_percentile_is_the_value_at_the_nearest_rank(
    values: list[float], percent: float, expected: float
) -> None:
    assert nearest_rank(np.asarray(values), [percent]) == [expected]


def test_no_values_have_no_percentiles() -> None:
    assert nearest_rank(np.array([], dtype=np.int64), [50, 99]) == [None, None]


@given(finite, st.lists(st.sampled_from([0, 1, 50, 99, 99.9, 100]), min_size=1))
def test_every_percentile_of_one_sample_is_that_sample(sample: float, percents: list[float]) -> None:
    """F30: a sample of 575 ms has p99 = 575 ms."""
    assert nearest_rank([sample], percents) == [sample] * len(percents)


@given(st.lists(finite, min_size=1, max_size=200))
def test_order_of_percentiles_holds_and_each_was_observed(values: list[float]) -> None:
    """F30: min <= p50 <= p90 <= p99 <= max, always."""
    figures = nearest_rank(values, [0, 50, 90, 99, 100])
    assert [figure for figure in figures if figure is not None] == figures
    ordered = [figure for figure in figures if figure is not None]
    assert ordered == sorted(ordered)
    assert ordered[0] == min(values)
    assert ordered[-1] == max(values)
    assert set(ordered) <= set(values)


@given(st.integers(1, 500), st.integers(1, 100))
def test_rank_is_the_least_that_covers_the_share(num_values: int, percent: int) -> None:
    (value,) = nearest_rank(np.arange(1, num_values + 1), [percent])
    assert value is not None
    assert value * 100 >= percent * num_values
    assert (value - 1) * 100 < percent * num_values
