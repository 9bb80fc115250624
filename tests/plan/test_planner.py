"""A trace and a shape give one schedule: what is sent when, and what was injected where."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.durations import Position
from loadgen.errors import LoadgenError, ScheduleError
from loadgen.plan.injection import Burst, Peak, busiest_offsets
from loadgen.plan.planner import plan
from loadgen.plan.schedule import Schedule, read_schedule, write_schedule
from loadgen.plan.shape import LengthScale, Shape
from loadgen.plan.summary import rate_curve, summarise
from loadgen.trace.statistics import peak_within
from support.traces import trace_of

S = 1_000_000_000
STEADY = [float(second) for second in range(60)]
# Bursts of five within 40 ms each 10 s: what production looks like.
BURSTY = sorted(10.0 * burst + 0.01 * k for burst in range(12) for k in range(5))

arrivals = st.lists(st.floats(0, 120, allow_nan=False), min_size=1, max_size=60).map(sorted)


def offsets_s(schedule: Schedule) -> list[float]:
    return [moment / 1e9 for moment in schedule.planned_ns]


def recorded_s(schedule: Schedule) -> list[float]:
    copies = np.asarray(schedule.table.column("copy").to_numpy())
    return [moment / 1e9 for moment in schedule.planned_ns[copies == 0]]


class TestWindowAndSpeed:
    @pytest.mark.parametrize(
        ("speedup", "expected"), [(2.0, [0, 30, 45]), (1.0, [0, 60, 90]), (0.5, [0, 120, 180])]
    )
    def test_speed_divides_gaps_not_stamps(self, speedup: float, expected: list[float]) -> None:
        # F40
        schedule = plan(trace_of([1_000_000, 1_000_060, 1_000_090]), Shape(speedup=speedup))
        assert offsets_s(schedule) == expected

    @pytest.mark.parametrize("speedup", [0.0, -1.0, float("inf"), float("nan")])
    def test_a_speed_of_nothing_is_refused(self, speedup: float) -> None:
        # F40
        with pytest.raises(ScheduleError, match="--speedup"):
            Shape(speedup=speedup)

    def test_positions_of_injections_are_in_wall_time_after_the_speed_up(self) -> None:
        # F40: a burst at 30 s of a minute sent at double speed begins at the end of its 30 s.
        at = (Position(share=None, offset_s=15.0),)
        schedule = plan(trace_of(STEADY), Shape(speedup=2.0, burst=Burst(3, 0.03, at)))
        (window,) = [window for window in schedule.windows if window.label == "burst-1"]
        assert window.start_ns == 15 * S

    def test_at_speed_1_the_recorded_nanoseconds_are_kept(self) -> None:
        recorded = trace_of([0.0, 0.123456789, 7.000000001])
        assert list(plan(recorded, Shape()).planned_ns) == list(recorded.arrival_ns)

    def test_ties_stay_ties(self) -> None:
        assert offsets_s(plan(trace_of([1.0, 1.0, 1.0, 2.0]), Shape(speedup=3.0)))[:3] == [0, 0, 0]

    def test_a_window_is_cut_by_start_and_duration(self) -> None:
        shape = Shape(start=Position(None, 10.0), duration_s=5.0)
        schedule = plan(trace_of(STEADY), shape)
        assert offsets_s(schedule) == [0, 1, 2, 3, 4]
        assert schedule.end_ns == 5 * S
        assert schedule.table.column("trace_row").to_pylist() == [10, 11, 12, 13, 14]

    def test_the_busiest_window_is_the_earliest_of_the_fullest(self) -> None:
        schedule = plan(trace_of([0, 10, 11, 12, 30, 31, 32, 50]), Shape(busiest_s=5.0))
        assert schedule.table.column("trace_row").to_pylist() == [1, 2, 3]

    @given(arrivals, st.floats(0.5, 50))
    def test_no_window_holds_more_than_the_busiest(self, moments: list[float], length_s: float) -> None:
        trace = trace_of(moments)
        schedule = plan(trace, Shape(busiest_s=length_s))
        assert schedule.num_requests == peak_within(trace.arrival_ns, round(length_s * 1e9))

    def test_a_window_without_a_request_is_refused(self) -> None:
        # F47: a filter that removes all.
        with pytest.raises(ScheduleError, match="no request"):
            plan(trace_of([0, 100]), Shape(start=Position(None, 10.0), duration_s=5.0))

    def test_busiest_and_start_exclude_each_other(self) -> None:
        with pytest.raises(ScheduleError, match="--busiest"):
            Shape(busiest_s=5.0, duration_s=5.0)


class TestLengths:
    def test_lengths_are_scaled_kept_at_one_and_cut(self) -> None:
        trace = trace_of([0, 1, 2, 3], input_tokens=[4808, 3, 100, 0], output_tokens=[10, None, 1899, 252])
        lengths = LengthScale(input_factor=0.01, output_factor=0.5, max_input=32, max_output=64)
        table = plan(trace, Shape(lengths=lengths)).table
        assert table.column("input_tokens").to_pylist() == [32, 1, 1, 0]
        assert table.column("output_tokens").to_pylist() == [5, None, 64, 64]

    def test_every_known_unit_is_scaled_alike(self) -> None:
        trace = trace_of([0], input_tokens=[None], input_chars=[100], input_bytes=[300])
        table = plan(trace, Shape(lengths=LengthScale(input_factor=0.1))).table
        assert table.column("input_tokens").to_pylist() == [None]
        assert table.column("input_chars").to_pylist() == [10]
        assert table.column("input_bytes").to_pylist() == [30]


class TestPeak:
    def test_a_peak_doubles_the_highest_count_of_the_trace(self) -> None:
        schedule = plan(trace_of(BURSTY), Shape(peak=Peak(width_s=1.0, at=(Position(0.5, None),))))
        (window,) = [window for window in schedule.windows if window.label == "peak-1"]
        inside = (schedule.planned_ns >= window.start_ns) & (schedule.planned_ns < window.end_ns)
        assert inside.sum() == 10
        assert window.end_ns - window.start_ns == S

    @given(arrivals, st.floats(1, 4), st.floats(0.05, 3), st.integers(1, 3), st.integers(0, 5))
    def test_every_peak_holds_what_it_promises_and_the_rest_is_untouched(
        self, moments: list[float], factor: float, width_s: float, count: int, seed: int
    ) -> None:
        trace = trace_of(moments)
        shape = Shape(peak=Peak(width_s, factor, count), seed=seed)
        try:
            schedule = plan(trace, shape)
        except ScheduleError:
            return  # too short for the injection, or peaks would overlap: refused, not bent
        highest = peak_within(trace.arrival_ns, round(width_s * 1e9))
        recorded_ns = trace.arrival_ns - trace.arrival_ns[0]
        for window in schedule.windows:
            inside = (schedule.planned_ns >= window.start_ns) & (schedule.planned_ns < window.end_ns)
            of_trace = ((recorded_ns >= window.start_ns) & (recorded_ns < window.end_ns)).sum()
            if window.label.startswith("peak"):
                assert inside.sum() == max(np.ceil(factor * highest), of_trace)
            else:
                assert inside.sum() == of_trace
        assert recorded_s(schedule) == [moment / 1e9 for moment in recorded_ns]

    def test_a_peak_comes_as_the_trace_itself_comes(self) -> None:
        # Its extras stand at the offsets of the trace's own busiest second, ties and all.
        trace = trace_of([0, 0, 0.2, *range(5, 60)])
        schedule = plan(trace, Shape(peak=Peak(at=(Position(None, 30.5),))))
        copies = np.asarray(schedule.table.column("copy").to_numpy())
        assert [round(m / 1e9, 3) for m in schedule.planned_ns[copies > 0]] == [30.5, 30.5, 30.5, 30.5, 30.7]

    def test_peaks_are_placed_evenly(self) -> None:
        schedule = plan(trace_of([*STEADY, 100.0]), Shape(peak=Peak(count=3)))
        starts = [window.start_ns / S for window in schedule.windows if window.label.startswith("peak")]
        assert starts == pytest.approx([24.75, 49.5, 74.25])

    def test_a_peak_behind_the_end_is_refused(self) -> None:
        with pytest.raises(ScheduleError, match="--peak-at"):
            plan(trace_of(STEADY), Shape(peak=Peak(at=(Position(None, 59.5),))))

    def test_overlapping_injections_are_refused(self) -> None:
        both = Shape(peak=Peak(at=(Position(None, 10.0),)), burst=Burst(5, 0.5, at=(Position(None, 10.5),)))
        with pytest.raises(ScheduleError, match="begins within"):
            plan(trace_of(STEADY), both)

    def test_busiest_offsets_begin_at_zero(self) -> None:
        assert list(busiest_offsets(np.array([5, 100, 101, 103, 200]), 10)) == [0, 1, 3]


class TestBurst:
    @given(st.integers(1, 50), st.floats(0.001, 0.1), st.integers(0, 9))
    def test_a_burst_adds_its_size_within_its_width(self, size: int, width_s: float, seed: int) -> None:
        schedule = plan(trace_of(STEADY), Shape(burst=Burst(size, width_s), seed=seed))
        (window,) = [window for window in schedule.windows if window.label == "burst-1"]
        copies = np.asarray(schedule.table.column("copy").to_numpy())
        extras_ns = schedule.planned_ns[copies > 0]
        assert len(extras_ns) == size
        assert extras_ns.min() >= window.start_ns
        assert extras_ns.max() < window.end_ns
        assert recorded_s(schedule) == STEADY

    def test_bursts_come_each_so_often(self) -> None:
        schedule = plan(trace_of(STEADY), Shape(burst=Burst(2, 0.03, every_s=20.0)))
        starts = [window.start_ns / S for window in schedule.windows if window.label.startswith("burst")]
        assert starts == [20.0, 40.0]


class TestWholeSchedule:
    @given(arrivals, st.integers(0, 3))
    def test_the_same_inputs_give_the_same_schedule_bit_for_bit(
        self, moments: list[float], seed: int
    ) -> None:
        shape = Shape(burst=Burst(4, 0.001), seed=seed)
        try:
            first, second = plan(trace_of(moments), shape), plan(trace_of(moments), shape)
        except ScheduleError:
            return
        assert first.schedule_hash == second.schedule_hash
        assert first.table.equals(second.table)

    def test_another_seed_draws_other_lengths(self) -> None:
        trace = trace_of(STEADY, input_tokens=list(range(1, 61)))
        hashes = {plan(trace, Shape(peak=Peak(factor=20), seed=seed)).schedule_hash for seed in range(5)}
        assert len(hashes) == 5

    @given(arrivals, st.integers(1, 3), st.integers(0, 3))
    def test_windows_follow_each_other_and_rows_lie_in_theirs(
        self, moments: list[float], count: int, seed: int
    ) -> None:
        try:
            schedule = plan(trace_of(moments), Shape(peak=Peak(0.5, 3.0, count), seed=seed))
        except ScheduleError:
            return
        windows = schedule.windows
        assert windows[0].start_ns == 0
        assert all(before.end_ns == after.start_ns for before, after in itertools.pairwise(windows))
        assert schedule.end_ns > schedule.planned_ns[-1]
        labels = schedule.table.column("window").to_pylist()
        for moment, label in zip(schedule.planned_ns, labels, strict=True):
            (home,) = [window for window in windows if window.start_ns <= moment < window.end_ns]
            assert home.label == label

    def test_trace_row_and_copy_name_a_request(self) -> None:
        schedule = plan(trace_of([0, 1, 2]), Shape(burst=Burst(40, 0.5)))
        keys = list(
            zip(
                schedule.table.column("trace_row").to_pylist(),
                schedule.table.column("copy").to_pylist(),
                strict=True,
            )
        )
        assert len(set(keys)) == len(keys) == 43

    def test_injected_lengths_are_those_of_the_trace(self) -> None:
        trace = trace_of(STEADY, input_tokens=[10, 20] * 30, output_tokens=[1, 2] * 30)
        table = plan(trace, Shape(peak=Peak(factor=50))).table
        pairs = Counter(
            zip(
                table.column("input_tokens").to_pylist(),
                table.column("output_tokens").to_pylist(),
                strict=True,
            )
        )
        assert set(pairs) == {(10, 1), (20, 2)}

    def test_injected_requests_belong_to_no_session(self) -> None:
        table = plan(trace_of(STEADY, session=[7] * 60), Shape(peak=Peak(factor=5))).table
        for copy, session in zip(
            table.column("copy").to_pylist(), table.column("session").to_pylist(), strict=True
        ):
            assert session == (None if copy else 7)

    def test_a_schedule_is_read_as_it_was_written(self, tmp_path: Path) -> None:
        schedule = plan(trace_of(BURSTY, model=["a", "b"] * 30), Shape(peak=Peak()))
        write_schedule(schedule, tmp_path / "schedule.parquet")
        read = read_schedule(tmp_path / "schedule.parquet")
        assert read.schedule_hash == schedule.schedule_hash
        assert read.windows == schedule.windows
        assert read.trace_id == schedule.trace_id

    @pytest.mark.parametrize("keep", [0, 4, 400, -1])
    def test_a_cut_schedule_file_is_one_error(self, tmp_path: Path, keep: int) -> None:
        # F48
        path = tmp_path / "schedule.parquet"
        write_schedule(plan(trace_of(BURSTY), Shape()), path)
        path.write_bytes(path.read_bytes()[:keep])
        with pytest.raises(LoadgenError, match=r"schedule\.parquet"):
            read_schedule(path)

    def test_the_summary_counts_what_the_schedule_holds(self) -> None:
        summary = summarise(plan(trace_of(BURSTY), Shape(peak=Peak(at=(Position(None, 55.0),)))))
        assert (summary.requests, summary.injected) == (70, 10)
        assert summary.peak_1s_sliding == 10
        assert sum(window.requests for window in summary.windows) == 70
        assert sum(window.duration_s for window in summary.windows) == pytest.approx(summary.duration_s)
        assert [window.label for window in summary.windows] == ["baseline", "peak-1", "recovery-1"]

    def test_the_curve_counts_every_request_once(self) -> None:
        counts, labels, bin_s = rate_curve(plan(trace_of(BURSTY), Shape(peak=Peak())), 10)
        assert sum(counts) == 70
        assert labels.count("peak-1") >= 1
        assert bin_s * 10 == pytest.approx(110.04, abs=0.01)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Peak(width_s=0),
        lambda: Peak(factor=0.9),
        lambda: Peak(count=0),
        lambda: Burst(0),
        lambda: Burst(5, 0),
        lambda: Burst(5, 1.0, every_s=0.5),
        lambda: LengthScale(input_factor=0),
        lambda: LengthScale(max_output=0),
        lambda: Shape(duration_s=0),
        lambda: Shape(seed=-1),
    ],
)
def test_values_that_make_no_sense_are_refused_at_birth(make: object) -> None:
    with pytest.raises(ScheduleError, match="--"):
        make()  # type: ignore[operator]  # a table of constructors
