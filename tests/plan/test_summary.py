"""A summary counts what a schedule holds, window by window."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from loadgen.durations import Position
from loadgen.plan.injection import Burst, Peak
from loadgen.plan.planner import plan
from loadgen.plan.shape import Shape
from loadgen.plan.summary import by_kind, rate_bins, summarise
from support.traces import trace_of

BURSTY = sorted(10.0 * burst + 0.01 * k for burst in range(12) for k in range(5))
STEADY = [float(second) for second in range(60)]


def test_the_summary_counts_what_the_schedule_holds() -> None:
    summary = summarise(plan(trace_of(BURSTY), Shape(peak=Peak(at=(Position(None, 55.0),)))))
    assert (summary.requests, summary.injected) == (70, 10)
    assert (summary.peak_1s_sliding, summary.peak_10s_sliding) == (10, 15)
    assert sum(window.requests for window in summary.windows) == 70
    assert sum(window.duration_s for window in summary.windows) == pytest.approx(summary.duration_s)
    assert [window.label for window in summary.windows] == ["baseline", "peak-1", "recovery-1"]


def test_the_curve_counts_every_request_once() -> None:
    bins = rate_bins(plan(trace_of(BURSTY), Shape(peak=Peak())), 10)
    assert sum(bins.counts) == 70
    assert bins.labels.count("peak-1") >= 1
    assert bins.highest_1s == [5] * 4 + [10] + [5] * 5
    assert bins.bin_s * 10 == pytest.approx(110.04, abs=0.01)


def test_counts_agree_with_the_labels_of_the_rows() -> None:
    schedule = plan(trace_of(BURSTY), Shape(peak=Peak(factor=3), burst=Burst(7, every_s=25.0)))
    rows = schedule.table.select(["window", "copy"]).to_pylist()
    for window in summarise(schedule).windows:
        mine = [row for row in rows if row["window"] == window.label]
        assert (window.requests, window.injected) == (len(mine), sum(row["copy"] > 0 for row in mine))


def test_sums_count_what_is_known_and_are_none_where_nothing_is() -> None:
    trace = trace_of([0, 1, 2], input_tokens=[5, None, 7], output_tokens=[None] * 3, input_chars=[None] * 3)
    summary = summarise(plan(trace, Shape()))
    assert (summary.input_tokens, summary.input_chars, summary.output_tokens) == (12, None, None)


def test_a_rate_over_next_to_nothing_is_none() -> None:
    # F81: strict JSON, and no rate of 1e9/s for a request at a schedule's last nanosecond.
    summary = summarise(plan(trace_of([5.0]), Shape()))
    assert summary.rate_per_s is None
    assert summary.windows[0].rate_per_s is None
    json.dumps(asdict(summary), allow_nan=False)


def test_many_injections_are_joined_by_their_kind() -> None:
    windows = by_kind(summarise(plan(trace_of(STEADY), Shape(burst=Burst(3, every_s=15.0)))).windows)
    assert [(window.label, window.requests, window.injected) for window in windows] == [
        ("baseline", 27, 0),
        ("burst (3)", 12, 9),
        ("recovery (3)", 30, 0),
    ]
    assert windows[1].duration_s == pytest.approx(0.09)


def test_a_bin_that_an_injection_touches_is_marked() -> None:
    shape = Shape(duration_s=40.0, burst=Burst(3, at=(Position(None, 10.0), Position(None, 29.99))))
    bins = rate_bins(plan(trace_of(STEADY), shape), 4)
    assert bins.bin_s == 10.0
    assert bins.labels == ["baseline", "burst-1", "burst-2", "burst-2"]


def test_what_is_shorter_than_ten_seconds_has_no_rate_over_ten() -> None:
    assert summarise(plan(trace_of([0, 1, 9]), Shape())).peak_10s_sliding is None
    assert summarise(plan(trace_of([0, 1, 10]), Shape())).peak_10s_sliding == 2
