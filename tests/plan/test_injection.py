"""Peaks and bursts add what they promise where they promise it, and move nothing else."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.durations import Position
from loadgen.errors import ScheduleError
from loadgen.plan.injection import Burst, Peak, busiest_offsets
from loadgen.plan.planner import plan
from loadgen.plan.schedule import Schedule
from loadgen.plan.shape import LengthScale, Shape
from loadgen.trace.statistics import peak_within
from support.traces import trace_of

S = 1_000_000_000
STEADY = [float(second) for second in range(60)]
# Bursts of five within 40 ms each 10 s: what production looks like.
BURSTY = sorted(10.0 * burst + 0.01 * k for burst in range(12) for k in range(5))

patient = settings(deadline=None, max_examples=40)
arrivals = st.lists(st.floats(0, 120, allow_nan=False), min_size=1, max_size=60).map(sorted)


def recorded_s(schedule: Schedule) -> list[float]:
    copies = np.asarray(schedule.table.column("copy").to_numpy())
    return [moment / 1e9 for moment in schedule.planned_ns[copies == 0]]


class TestPeak:
    def test_a_peak_doubles_the_highest_count_of_the_trace(self) -> None:
        schedule = plan(trace_of(BURSTY), Shape(peak=Peak(width_s=1.0, at=(Position(0.5, None),))))
        (window,) = [window for window in schedule.windows if window.label == "peak-1"]
        inside = (schedule.planned_ns >= window.start_ns) & (schedule.planned_ns < window.end_ns)
        assert inside.sum() == 10
        assert window.end_ns - window.start_ns == S

    @patient
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
                assert inside.sum() == max(ceil(Fraction(str(factor)) * highest), of_trace)
            else:
                assert inside.sum() == of_trace
        assert recorded_s(schedule) == [moment / 1e9 for moment in recorded_ns]

    def test_a_peak_comes_as_the_trace_itself_comes(self) -> None:
        # Its extras stand at the offsets of the trace's own busiest second, ties and all.
        trace = trace_of([0, 0, 0.2, *range(5, 60)])
        schedule = plan(trace, Shape(peak=Peak(at=(Position(None, 30.5),))))
        copies = np.asarray(schedule.table.column("copy").to_numpy())
        assert [round(m / 1e9, 3) for m in schedule.planned_ns[copies > 0]] == [30.5, 30.5, 30.5, 30.5, 30.7]

    def test_a_factor_is_exact(self) -> None:
        # In floats 1.1 * 10 is a little above 11.
        trace = trace_of([0.0] * 10 + STEADY[5:])
        (extras,) = Peak(factor=1.1, at=(Position(None, 30.5),)).extras(trace.arrival_ns, 59 * S)
        assert len(extras.planned_ns) == 11 - 1

    def test_half_a_peak_has_the_form_of_the_whole(self) -> None:
        # Ten arrivals 0.1 s apart, of which the interval holds half already: the rest spreads over all of it.
        recorded = [k / 10 for k in range(10)] + [20 + k / 5 for k in range(5)] + [40.0]
        (extras,) = Peak(factor=1.0, at=(Position(None, 20.0),)).extras(trace_of(recorded).arrival_ns, 41 * S)
        assert [round(moment / S - 20, 3) for moment in extras.planned_ns] == [0, 0.2, 0.4, 0.6, 0.8]

    def test_a_peak_where_the_trace_is_as_high_adds_nothing(self) -> None:
        trace = trace_of([0.0] * 10 + STEADY[5:])
        (extras,) = Peak(factor=1.0, at=(Position(None, 0.0),)).extras(trace.arrival_ns, 59 * S)
        assert len(extras.planned_ns) == 0

    def test_the_height_is_taken_after_the_speed_up(self) -> None:
        # One a second, sent at four times the speed, has four a second; its double peak eight.
        schedule = plan(trace_of(STEADY), Shape(speedup=4.0, peak=Peak()))
        assert peak_within(schedule.planned_ns, S) >= 8
        (window,) = [window for window in schedule.windows if window.label == "peak-1"]
        inside = (schedule.planned_ns >= window.start_ns) & (schedule.planned_ns < window.end_ns)
        assert inside.sum() == 8

    def test_a_peak_that_no_machine_could_send_is_refused(self) -> None:
        with pytest.raises(ScheduleError, match="--peak-factor"):
            plan(trace_of(STEADY), Shape(peak=Peak(factor=1e12)))

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
    @patient
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

    def test_a_burst_every_longer_than_the_schedule_is_refused(self) -> None:
        with pytest.raises(ScheduleError, match="--burst-every"):
            plan(trace_of(STEADY), Shape(burst=Burst(2, 0.03, every_s=90.0)))

    def test_a_peak_beside_it_does_not_change_what_a_burst_draws(self) -> None:
        burst = Burst(20, 0.05, at=(Position(None, 40.0),))
        alone = plan(trace_of(STEADY), Shape(burst=burst, seed=4))
        beside = plan(trace_of(STEADY), Shape(burst=burst, peak=Peak(at=(Position(None, 5.0),)), seed=4))
        moments = [
            schedule.planned_ns[np.asarray(schedule.table["window"].to_pylist()) == "burst-1"].tolist()
            for schedule in (alone, beside)
        ]
        assert moments[0] == moments[1]

    def test_bursts_come_each_so_often(self) -> None:
        schedule = plan(trace_of(STEADY), Shape(burst=Burst(2, 0.03, every_s=20.0)))
        starts = [window.start_ns / S for window in schedule.windows if window.label.startswith("burst")]
        assert starts == [20.0, 40.0]


@pytest.mark.parametrize(
    "make",
    [
        lambda: Peak(width_s=0),
        lambda: Peak(factor=0.9),
        lambda: Peak(count=0),
        lambda: Burst(0),
        lambda: Burst(5, 0),
        lambda: Burst(10**12),
        lambda: Burst(5, 0.03, (Position(0.5, None),), 10.0),
        lambda: Peak(factor=float("nan")),
        lambda: LengthScale(output_factor=float("inf")),
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
