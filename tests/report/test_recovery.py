"""How long an injection is felt: worked out by hand, and against the definition taken word for word."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.percentiles import nearest_rank
from loadgen.plan.schedule import Window
from loadgen.report.figures import Missing
from loadgen.report.observations import Observations
from loadgen.report.recovery import MIN_REQUESTS, ROLLING_S, longest, recoveries
from support.runs import Row, failed, measured, ns, ok, records

WINDOWS = (
    Window("baseline", 0, ns(10)),
    Window("peak-1", ns(10), ns(11)),
    Window("recovery-1", ns(11), ns(30)),
)
STEADY = [ok(k / 2, first_s=k / 2 + 0.05, last_s=k / 2 + 0.1) for k in range(20)]


def answer(planned_s: float, took_s: float) -> Row:
    return ok(planned_s, first_s=planned_s + took_s / 2, last_s=planned_s + took_s, window="recovery-1")


def figure(rows: list[Row], windows: tuple[Window, ...] = WINDOWS) -> float | Missing:
    return recoveries(Observations(records(STEADY + rows)), windows)["peak-1"]


def test_latency_that_never_left_recovers_at_once_even_if_the_next_request_is_a_while_off() -> None:
    assert figure([answer(11.3 + k / 4, 0.1) for k in range(8)]) == 0.0


def test_it_is_back_where_the_first_two_seconds_are_within_ten_percent() -> None:
    # Slow until 13 s: the first stretch of 2 s without a slow one begins with the request of 13 s.
    rows = [answer(11 + k / 4, 1.0 if k < 8 else 0.11) for k in range(24)]
    assert figure(rows) == pytest.approx(2.0)


def test_more_than_ten_percent_above_is_not_back() -> None:
    found = figure([answer(11 + k / 4, 0.12) for k in range(24)])
    assert isinstance(found, Missing)
    assert "not recovered" in found.reason


def test_a_failure_has_not_recovered() -> None:
    rows = [failed(11 + k / 4, "rejected", end_s=11.1 + k / 4, window="recovery-1") for k in range(4)]
    rows += [answer(12 + k / 4, 0.1) for k in range(12)]
    assert figure(rows) == pytest.approx(1.0)


def test_without_requests_before_it_there_is_no_baseline() -> None:
    windows = (Window("peak-1", 0, ns(1)), Window("recovery-1", ns(1), ns(30)))
    found = figure([], windows)
    assert isinstance(found, Missing)
    assert "no baseline" in found.reason


def test_the_baseline_leaves_out_earlier_injections_and_their_recoveries() -> None:
    windows = (
        Window("baseline", 0, ns(4)), Window("peak-1", ns(4), ns(5)), Window("recovery-1", ns(5), ns(6)),
        Window("baseline", ns(6), ns(10)), Window("peak-2", ns(10), ns(11)), Window("recovery-2", ns(11), ns(30)),
    )  # fmt: skip
    rows = [answer(4.1 + k / 10, 5.0) for k in range(19)] + [answer(11 + k / 4, 1.0) for k in range(24)]
    found = recoveries(Observations(records(STEADY + rows)), windows)
    assert isinstance(found["peak-2"], Missing)


def test_a_whole_run_recovers_as_slowly_as_its_slowest_injection() -> None:
    assert longest({"peak-1": 1.0, "peak-2": 4.0}) == 4.0
    assert longest({"peak-1": 1.0, "peak-2": Missing("no")}) == Missing("peak-2: no")
    assert longest({}) == Missing("nothing was injected")
    overall = measured([*STEADY, *(answer(11 + k / 4, 0.1) for k in range(9))], length_s=30, windows=WINDOWS)[
        "overall"
    ]
    assert overall.value("recovery_s") == 0.0


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from([0.1, 0.1, 0.1, 0.3, math.nan])),
        min_size=1,
        max_size=60,
    )
)
def test_recovery_is_what_its_definition_says(drawn: list[tuple[int, float]]) -> None:
    after = sorted((0.25 * step, took_s) for step, took_s in drawn)
    rows = [
        failed(11 + at, "rejected", end_s=11 + at, window="recovery-1")
        if math.isnan(took_s)
        else answer(11 + at, took_s)
        for at, took_s in after
    ]
    expected = None
    for place, (at, _) in enumerate(after):
        start_s = 0.0 if place == 0 else at
        rolling = [
            math.inf if math.isnan(t) else t for when, t in after[place:] if when <= start_s + ROLLING_S
        ]
        if len(rolling) >= MIN_REQUESTS:
            (p99_s,) = nearest_rank(rolling, [99])
            if p99_s is not None and p99_s <= 0.11:
                expected = start_s
                break
    found = figure(rows)
    if expected is None:
        assert isinstance(found, Missing)
    else:
        assert found == pytest.approx(expected)
