"""A trace and a shape give one schedule: which rows are sent, when, and how long their texts are."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.durations import Position
from loadgen.errors import ScheduleError
from loadgen.plan.injection import Burst, Peak
from loadgen.plan.planner import plan
from loadgen.plan.schedule import Schedule
from loadgen.plan.shape import LengthScale, Shape
from loadgen.trace.statistics import peak_within
from support.traces import trace_of

S = 1_000_000_000
STEADY = [float(second) for second in range(60)]

patient = settings(deadline=None, max_examples=40)
arrivals = st.lists(st.floats(0, 120, allow_nan=False), min_size=1, max_size=60).map(sorted)


def offsets_s(schedule: Schedule) -> list[float]:
    return [moment / 1e9 for moment in schedule.planned_ns]


def test_a_trace_of_arrivals_alone_is_refused() -> None:
    with pytest.raises(ScheduleError, match="no input lengths"):
        plan(trace_of([0, 1], input_tokens=[None, None]), Shape())


def test_one_input_length_of_any_unit_is_enough() -> None:
    schedule = plan(trace_of([0, 1], input_tokens=[None, None], input_bytes=[None, 5]), Shape())
    assert schedule.num_requests == 2


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

    @patient
    @given(arrivals, st.floats(0.5, 50))
    def test_no_window_holds_more_than_the_busiest(self, moments: list[float], length_s: float) -> None:
        trace = trace_of(moments)
        schedule = plan(trace, Shape(busiest_s=length_s))
        assert schedule.num_requests == peak_within(trace.arrival_ns, round(length_s * 1e9))

    def test_a_window_that_reaches_behind_the_trace_ends_with_it(self) -> None:
        # Else half of --duration 1h over a minute would be silence, and 50% a moment without traffic.
        for shape in (Shape(duration_s=3600.0), Shape(busiest_s=3600.0), Shape(duration_s=1e300), Shape()):
            assert plan(trace_of(STEADY), shape).end_ns == 59 * S + 1

    def test_a_window_is_as_long_as_told_where_its_end_is_silent(self) -> None:
        assert plan(trace_of([0, 1, 100]), Shape(duration_s=50.0, speedup=2.0)).end_ns == 25 * S

    @pytest.mark.parametrize(("share", "row"), [(0.0, 0), (0.5, 30), (1.0, 59)])
    def test_a_percentage_is_of_the_whole_trace(self, share: float, row: int) -> None:
        schedule = plan(trace_of(STEADY), Shape(start=Position(share, None)))
        assert schedule.table.column("trace_row")[0].as_py() == row

    def test_a_speed_that_takes_centuries_is_refused(self) -> None:
        with pytest.raises(ScheduleError, match="--speedup"):
            plan(trace_of(STEADY), Shape(speedup=1e-15))

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

    @pytest.mark.parametrize(
        ("length", "factor", "expected"),
        [(50, 0.29, 15), (50, 0.27, 14), (1, 0.001, 1), (0, 9.0, 0), (3, 1.5, 5)],
    )
    def test_halves_are_rounded_up_and_none_vanishes(self, length: int, factor: float, expected: int) -> None:
        table = plan(trace_of([0], input_tokens=[length]), Shape(lengths=LengthScale(factor))).table
        assert table.column("input_tokens").to_pylist() == [expected]

    def test_a_length_that_no_file_holds_is_refused(self) -> None:
        with pytest.raises(ScheduleError, match="--scale-input"):
            plan(trace_of([0]), Shape(lengths=LengthScale(1e10)))
        cut = LengthScale(1e10, max_input=99)
        assert plan(trace_of([0]), Shape(lengths=cut)).table.column("input_tokens").to_pylist() == [99]

    def test_every_known_unit_is_scaled_alike(self) -> None:
        trace = trace_of([0], input_tokens=[None], input_chars=[100], input_bytes=[300])
        table = plan(trace, Shape(lengths=LengthScale(input_factor=0.1))).table
        assert table.column("input_tokens").to_pylist() == [None]
        assert table.column("input_chars").to_pylist() == [10]
        assert table.column("input_bytes").to_pylist() == [30]


class TestWholeSchedule:
    @patient
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

    def test_copies_share_what_requests_share_and_have_the_rest_to_themselves(self) -> None:
        # Else an injected request would find its whole prompt in the target's cache.
        trace = trace_of([0, 1], prefix_blocks=[[7, 8], [7, 9]])
        rows = plan(trace, Shape(burst=Burst(20, 0.1), repeat=2)).table.to_pylist()
        last_blocks = [row["prefix_blocks"][1] for row in rows]
        assert all(row["prefix_blocks"][0] == 7 for row in rows)
        assert len(set(last_blocks)) == len(rows) == 24
        assert [block for block in last_blocks if block in (8, 9)] == [8, 9]

    def test_blocks_of_one_session_are_not_shared_by_its_copies(self) -> None:
        trace = trace_of([0, 1, 2], prefix_blocks=[[1, 5], [1, 5, 6], None], session=[4, 4, None])
        first, second, none, *copies = plan(trace, Shape(repeat=2)).table.column("prefix_blocks").to_pylist()
        assert (first, second, none, copies[2]) == ([1, 5], [1, 5, 6], None, None)
        # The repeated session's turns share with each other, not with the first one's.
        assert copies[1][:2] == copies[0]
        assert not set(copies[1]) & {1, 5, 6}

    @patient
    @given(arrivals, st.floats(0.1, 10), st.integers(0, 3))
    def test_moments_ascend_and_each_request_is_named_once(
        self, moments: list[float], speedup: float, seed: int
    ) -> None:
        try:
            table = plan(trace_of(moments), Shape(speedup=speedup, burst=Burst(30, 0.001), seed=seed)).table
        except ScheduleError:
            return
        planned = table.column("planned_ns").to_pylist()
        assert planned == sorted(planned)
        names = set(zip(table["trace_row"].to_pylist(), table["copy"].to_pylist(), strict=True))
        assert len(names) == len(planned) == len(moments) + 30

    def test_injected_requests_belong_to_no_session(self) -> None:
        table = plan(trace_of(STEADY, session=[7] * 60), Shape(peak=Peak(factor=5))).table
        for copy, session in zip(
            table.column("copy").to_pylist(), table.column("session").to_pylist(), strict=True
        ):
            assert session == (None if copy else 7)
