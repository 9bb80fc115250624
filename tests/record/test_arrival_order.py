"""What the order of arrivals tells: rows to be moved, the finest step, a clock that goes back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.record.arrival_order import ArrivalOrder
from loadgen.record.busiest import BusiestWindow

S = 10**9


def order_of(moments: list[int], ends: list[int] | None = None, *, cut: int = 0) -> ArrivalOrder:
    order = ArrivalOrder()
    whole = np.array(moments, dtype=np.int64)
    end_ns = None if ends is None else np.array(ends, dtype=np.int64)
    for part in (slice(0, cut), slice(cut, None)):
        order.add(whole[part], None if end_ns is None else end_ns[part])
    return order


@given(st.lists(st.integers(1, 50)), st.integers(0, 50))
def test_rows_behind_a_later_one_are_counted_across_batches(moments: list[int], cut: int) -> None:
    expected = sum(moment < max(moments[: row + 1]) for row, moment in enumerate(moments))
    assert order_of(moments, cut=cut).num_out_of_order == expected


@pytest.mark.parametrize(
    ("moments", "step"),
    [
        ([], None),
        ([0], None),
        ([5 * S, 7 * S], S),
        ([5 * S, 7_500 * 10**6], 10**8),
        ([3, 10], 1),
        ([20 * S], S),
    ],
)
def test_the_finest_step_is_a_power_of_ten(moments: list[int], step: int | None) -> None:
    assert order_of(moments, cut=1).finest_step_ns == step


def steady(start_s: float, count: int) -> list[int]:
    return [round((start_s + 0.1 * row) * S) for row in range(count)]


def test_a_clock_that_goes_back_and_stays_back_is_a_step() -> None:
    order = order_of(steady(100, 60) + steady(100, 60) + steady(300, 60))
    assert order.num_clock_steps == 1
    assert order.largest_step_ns == pytest.approx(4.4 * S, abs=0.2 * S)  # 5.9 s, less 16 lines of 0.1 s


def test_long_requests_that_are_logged_late_are_no_step() -> None:
    ends = steady(100, 200)
    arrivals = [end - (60 * S if row % 20 == 0 else 0) for row, end in enumerate(ends)]
    assert order_of(arrivals, ends).num_clock_steps == 0
    # Also where no durations are known: the lines around them are where they should be.
    assert order_of(arrivals).num_clock_steps == 0


def test_a_log_in_no_order_tells_nothing_of_its_clock() -> None:
    moments = steady(100, 200)
    np.random.default_rng(1).shuffle(moments)
    assert order_of(moments).num_clock_steps == 0
    assert order_of(steady(100, 200)[::-1]).num_clock_steps == 0


@given(
    st.lists(st.integers(0, 60), max_size=30), st.integers(1, 20), st.lists(st.integers(0, 30), max_size=3)
)
def test_the_busiest_window_is_that_of_all_windows(moments: list[int], width: int, cuts: list[int]) -> None:
    moments.sort()
    window = BusiestWindow(width)
    for part in np.split(
        np.array(moments, dtype=np.int64), sorted(cut for cut in cuts if cut <= len(moments))
    ):
        window.add(part)
    counts = [sum(start <= moment < start + width for moment in moments) for start in moments]
    assert window.count == max(counts, default=0)
    assert window.start_ns == (moments[int(np.argmax(counts))] if moments else None)
