"""A rate curve decides how many requests come when; its files are read or refused by line."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import ScheduleError
from loadgen.plan.arrivals import Arrivals
from loadgen.plan.planner import plan
from loadgen.plan.rate_curve import Ramp, RateCurve, parse_ramp, read_rate_series
from loadgen.plan.shape import Shape
from support.traces import trace_of

S = 1_000_000_000
UNIFORM = Arrivals("uniform")
TRACE = trace_of([0, 1, 3])


def expected(curve: RateCurve, until_s: float) -> float:
    """Requests by the curve until a moment, by the trapezoid rule on a fine grid."""
    times = np.array([time_s for time_s, _ in curve.points])
    total = 0.0
    for (left, low), (right, high) in pairwise(curve.points):
        end = min(right, until_s)
        if end > left:
            at_end = low + (high - low) * (end - left) / (right - left)
            total += (low + at_end) / 2 * (end - left)
    assert times[-1] >= 0
    return total


@st.composite
def curves(draw: st.DrawFn) -> RateCurve:
    steps = draw(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 30)), min_size=2, max_size=7))
    time_s, points = 0.0, []
    for step_s, rate in steps:
        points.append((time_s, rate))
        time_s += step_s
    try:
        return RateCurve(tuple(points))
    except ScheduleError:
        return RateCurve(((0.0, 1.0), (5.0, 2.0)))


@settings(deadline=None, max_examples=60)
@given(curves(), st.floats(0, 1))
def test_at_every_moment_as_many_have_been_sent_as_the_curve_says(curve: RateCurve, share: float) -> None:
    schedule = plan(TRACE, Shape(rate=curve, arrivals=UNIFORM))
    until_s = share * curve.points[-1][0]
    sent = int(np.count_nonzero(schedule.planned_ns < until_s * 1e9))
    assert schedule.num_requests == curve.num_requests
    assert schedule.end_ns == curve.length_ns
    # Within one, and the half of one by which the whole was rounded.
    assert abs(sent - expected(curve, until_s)) <= 1.501


@pytest.mark.parametrize(("length_s", "count"), [(2.0, 2), (2.4, 2), (2.5, 3), (2.6, 3)])
def test_half_a_request_is_rounded_up(length_s: float, count: int) -> None:
    curve = RateCurve(((0.0, 1.0), (length_s, 1.0)))
    assert plan(TRACE, Shape(rate=curve, arrivals=UNIFORM)).num_requests == count


def test_a_step_is_two_points_at_one_time() -> None:
    curve = RateCurve(((0, 2), (5, 2), (5, 10), (10, 10)))
    schedule = plan(TRACE, Shape(rate=curve, arrivals=UNIFORM))
    # To a few ns: a moment is rounded twice.
    counts = np.bincount((schedule.planned_ns + 10) // S, minlength=10)
    assert counts.tolist() == [2] * 5 + [10] * 5


def test_nothing_is_sent_while_the_rate_is_0() -> None:
    curve = RateCurve(((0, 0), (10, 0), (10, 5), (20, 5), (20, 0), (30, 0)))
    for kind in ("uniform", "poisson", "bursty"):
        planned_s = plan(TRACE, Shape(rate=curve, arrivals=Arrivals(kind))).planned_ns / 1e9
        assert planned_s.size == 50
        assert planned_s.min() >= 10
        assert planned_s.max() <= 20


def test_a_ramp_rises_in_a_straight_line_over_the_part() -> None:
    schedule = plan(trace_of([0, 1, 99.999999999]), Shape(rate=Ramp(0, 10), arrivals=UNIFORM))
    assert schedule.num_requests == 500
    by_tens = np.bincount(schedule.planned_ns // (10 * S), minlength=10)
    assert by_tens.tolist() == pytest.approx([10 * k + 5 for k in range(10)], abs=1)


def test_rows_come_in_order_and_from_the_beginning_again() -> None:
    table = plan(TRACE, Shape(rate=Ramp(1, 1, 8.0), arrivals=UNIFORM)).table
    assert table.column("trace_row").to_pylist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert table.column("copy").to_pylist() == [0, 0, 0, 1, 1, 1, 2, 2]


def test_poisson_arrivals_follow_the_curve_too() -> None:
    schedule = plan(TRACE, Shape(rate=Ramp(0, 200, 100.0), arrivals=Arrivals("poisson")))
    halves = np.bincount(schedule.planned_ns // (50 * S), minlength=2)
    assert schedule.num_requests == 10_000
    assert halves[0] == pytest.approx(2500, abs=250)
    gaps = np.diff(schedule.planned_ns[-2000:])
    assert gaps.std() / gaps.mean() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("text", "points"),
    [
        ("time,rate\n0,1\n10,5\n", [(0, 1), (10, 5)]),
        ("0,1\n\n# a note\n2.5,5\n", [(0, 1), (2.5, 5)]),
        ("1700000000,3\n1700000060,4", [(0, 3), (60, 4)]),
        ("when,rps\n2026-12-01T10:00:00Z,3\n2026-12-01T12:00:01+01:00,4", [(0, 3), (3601, 4)]),
        ('[{"time": 5, "rate": 1, "more": 2}, {"time": 6.5, "rate": 2}]', [(0, 1), (1.5, 2)]),
        ("[[0, 1], [4, 2]]", [(0, 1), (4, 2)]),
        ("\ufefftime,rate\n0,1\n10,5\n", [(0, 1), (10, 5)]),
    ],
)
def test_files_of_either_form_are_read(tmp_path: Path, text: str, points: list[tuple[float, float]]) -> None:
    path = tmp_path / "rates"
    path.write_text(text, encoding="utf-8")
    assert read_rate_series(path).points == tuple(points)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no rate"),
        ("time,rate\n", "holds no rate"),
        ("0,1\n", "no times that ascend"),
        ("0,1\n5,2\n3,1\n", "no times that ascend"),
        ("0,1\n0,2\n", "lasts 0 s"),
        ("0,1\n5,many\n", "line 2: '5', 'many'"),
        ("0,1\n5,-2\n", "a rate of -2"),
        ("0,1\n5,nan\n", "a rate of nan"),
        ("0,1,2\n", "line 1 has 3 columns"),
        ("0,0\n5,0\n", "make 0 of a request"),
        ('{"time": 0}', "is no list"),
        ("[1, 2]", "entry 1"),
        ("[[0, true], [true, 1]]", "entry 2"),
        ("[[0, 1], ", "is no JSON"),
        ("[[0, null], [1, 1]]", "entry 1"),
    ],
)
def test_what_is_no_series_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "rates.csv"
    path.write_text(text)
    with pytest.raises(ScheduleError, match=message) as refused:
        read_rate_series(path)
    assert str(path) in refused.value.message
    assert refused.value.hint


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rates.csv"
    path.write_bytes(b"\xff\xfe0,1")
    with pytest.raises(ScheduleError, match="not UTF-8"):
        read_rate_series(path)


@pytest.mark.parametrize("text", ["5", "1..2..3", "a..b", "..5", "nan..1"])
def test_what_is_no_ramp_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError, match="--ramp"):
        parse_ramp(text, None)
