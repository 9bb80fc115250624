"""Levels of looks against published boundaries, and against chance itself."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.compare.laws import normal_quantile, two_sided_t_p, two_sided_t_quantile
from loadgen.compare.spending import nominal_levels, spent


def bounds(alpha: float, num_looks: int) -> list[float]:
    return [-normal_quantile(level / 2) for level in nominal_levels(alpha, num_looks)]


def test_five_looks_have_the_published_bounds() -> None:
    # Lan-DeMets with O'Brien-Fleming spending, two-sided 5 %, five equal steps (Proschan, Lan, Wittes 2006).
    assert bounds(0.05, 5) == pytest.approx([4.877, 3.357, 2.680, 2.290, 2.031], abs=0.002)


def test_one_look_has_the_whole_level() -> None:
    assert nominal_levels(0.05, 1) == pytest.approx((0.05,))


def test_first_looks_of_many_decide_nothing() -> None:
    assert nominal_levels(0.05, 40)[:3] == (0.0, 0.0, 0.0)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.001, 0.2), st.integers(2, 30))
def test_levels_grow_and_stay_below_the_whole(alpha: float, num_looks: int) -> None:
    levels = nominal_levels(alpha, num_looks)
    assert all(later >= earlier for earlier, later in pairwise(levels))
    assert levels[-1] < alpha


def test_all_is_spent_at_the_end_and_nothing_before_the_start() -> None:
    assert spent(0.05, 0.0) == 0.0
    assert spent(0.05, 1.0) == pytest.approx(0.05)


def test_looking_twenty_times_raises_the_false_alarms_to_no_more_than_was_allowed() -> None:
    rng = np.random.default_rng(5)
    steps = rng.standard_normal((40_000, 20))
    z = steps.cumsum(axis=1) / np.sqrt(np.arange(1, 21))
    crossed = np.abs(z) > np.array(bounds(0.05, 20))
    assert crossed.any(axis=1).mean() == pytest.approx(0.05, abs=0.005)


def test_laws_have_the_values_of_tables() -> None:
    assert two_sided_t_quantile([0.05, 0.01], [10, 4]) == pytest.approx([2.2281, 4.6041], abs=1e-4)
    assert two_sided_t_p([2.2281], [10]) == pytest.approx([0.05], abs=1e-4)


def test_without_degrees_of_freedom_nothing_is_known() -> None:
    assert np.isnan(two_sided_t_quantile([0.05], [0])).all()
    assert np.isnan(two_sided_t_p([3.0], [0])).all()


def test_a_level_of_zero_is_never_reached() -> None:
    assert np.isinf(two_sided_t_quantile([0.0], [5])).all()
