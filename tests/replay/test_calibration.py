"""What a machine can send is judged from lateness by rate, and a plan's busiest second is set beside it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.replay.calibration import (
    Calibration,
    Ceiling,
    Stair,
    Step,
    ceiling_of,
    comparison,
    events_of,
    stairs,
    step_of,
)
from loadgen.replay.calibration_file import cache_folder, calibration_for, host_facts, keep, read_calibrations
from support.sending import schedule_table

HOST = {"machine": "m", "cores": 4}
# A thousand requests of one event a second, or half as many of ten.
PLAIN = Calibration(
    HOST, "2026-12-01T10:00:00+00:00", 1, "fast", False, 0.0001, 0.0005,
    (Ceiling(1, 1000.0, True), Ceiling(10, 500.0, True)),
)  # fmt: skip


def steps(*late: tuple[float, float | None]) -> list[Step]:
    return [Step(rate, p99) for rate, p99 in late]


class TestCeiling:
    @pytest.mark.parametrize(
        ("tried", "rate", "is_reached"),
        [
            (steps((100, 0.001), (200, 0.002), (400, 0.003), (800, 0.9)), 200, True),
            (steps((100, 0.001), (200, 0.001)), 200, False),
            # What is late below a rate that is not was a neighbour's doing.
            (steps((100, 0.001), (200, 0.009), (400, 0.009), (800, 0.001), (900, 0.9)), 800, True),
            (steps((100, 0.001), (200, None), (400, None)), 100, True),
            (steps((100, 0.5), (200, 0.5)), 100, True),
            (steps((400, 0.001), (100, 0.001), (800, 0.5), (900, 0.5)), 400, True),
        ],
    )
    def test_it_is_the_highest_rate_that_was_sent_on_time(
        self, tried: list[Step], rate: float, is_reached: bool
    ) -> None:
        assert ceiling_of(32, tried, 0.0001) == Ceiling(32, rate, is_reached)

    def test_a_machine_that_is_late_at_rest_is_allowed_twice_that(self) -> None:
        tried = steps((100, 0.02), (200, 0.039), (400, 0.041), (800, 0.05))
        assert ceiling_of(1, tried, 0.02).rate_per_s == 200

    def test_a_step_that_was_not_all_sent_is_none(self) -> None:
        stair = Stair(10.0, np.array([0, 1, 2]))
        assert step_of(stair, np.array([1, 2])) == Step(10.0, None)
        assert step_of(stair, np.array([1, 5_000_000, 2])) == Step(10.0, 0.005)

    def test_stairs_follow_each_other_evenly(self) -> None:
        first, second = stairs([(4.0, 0.5), (10.0, 0.3)], pause_s=0.1)
        assert first.planned_ns.tolist() == [0, 250_000_000]
        assert second.planned_ns.tolist() == [600_000_000, 700_000_000, 800_000_000]


class TestComparison:
    def test_costs_come_from_two_lengths_of_stream(self) -> None:
        # 1 ms for one event and 2 ms for ten: a ninth of a ms for each event.
        request_s, event_s = PLAIN.costs_s()
        assert event_s == pytest.approx(0.001 / 9)
        assert request_s + event_s == pytest.approx(0.001)

    def test_noise_that_turns_the_order_makes_no_negative_cost(self) -> None:
        turned = replace(PLAIN, ceilings=(Ceiling(1, 500.0, True), Ceiling(10, 1000.0, True)))
        request_s, event_s = turned.costs_s()
        assert request_s == pytest.approx(0.002)
        assert event_s == 0.0

    @given(st.integers(1, 3000))
    def test_a_second_at_the_ceiling_is_all_of_it(self, count: int) -> None:
        planned_ns = np.sort(np.random.default_rng(count).integers(0, 10**9, count))
        for ceiling in PLAIN.ceilings:
            load = PLAIN.load_of(planned_ns, np.full(count, ceiling.num_events))
            assert load == pytest.approx(count / ceiling.rate_per_s)

    def test_the_busiest_second_counts_wherever_it_begins(self) -> None:
        # Two, then three within a second that straddles a whole one.
        planned_ns = np.array([0, 100, 1_900_000_000, 2_000_000_000, 2_100_000_000])
        assert PLAIN.load_of(planned_ns, np.ones(5, np.int64)) == pytest.approx(0.003)

    @pytest.mark.parametrize(
        ("count", "workers", "expected"),
        [(3000, 1, "3.0 times"), (3000, 2, "1.5 times"), (3000, 9, "75% of"), (250, 1, "25% of")],
    )
    def test_the_line_tells_how_often_or_what_share(self, count: int, workers: int, expected: str) -> None:
        table = schedule_table([k / count for k in range(count)], output_tokens=[1] * count)
        line = comparison(PLAIN, table, stream=True, workers=workers)
        assert line.startswith(
            f"your plan's highest second is {expected} what this machine can send honestly"
        )
        assert "calibrated 2026-12-01" in line

    def test_fewer_workers_than_were_measured_do_less(self) -> None:
        table = schedule_table([0.0] * 1000, output_tokens=[1] * 1000)
        four = replace(PLAIN, workers=4)
        assert "4.0 times" in comparison(four, table, stream=True, workers=1)

    def test_events_are_planned_tokens_and_one_where_there_is_no_stream(self) -> None:
        table = schedule_table(
            [0, 0, 0, 0],
            output_tokens=[7, None, None, 0],
            output_chars=[None, 41, None, None],
            stream=[None, True, False, True],
        )
        assert events_of(table, stream=None).tolist() == [7, 11, 1, 1]
        assert events_of(table, stream=True).tolist() == [7, 11, 32, 1]
        assert events_of(table, stream=False).tolist() == [1, 1, 1, 1]


class TestFile:
    def test_a_calibration_comes_back_for_its_machine_and_settings(self, tmp_path: Path) -> None:
        path = tmp_path / "deep" / "calibration.json"
        four = replace(PLAIN, workers=4)
        for entry in (
            PLAIN,
            four,
            replace(PLAIN, transport="httpx"),
            replace(PLAIN, host={"machine": "other"}),
        ):
            keep(entry, path)

        def found(workers: int, transport: str = "fast", realtime: bool = False) -> Calibration | None:
            return calibration_for(path, HOST, workers=workers, transport=transport, realtime=realtime)

        assert found(1) == PLAIN
        assert found(4) == found(9) == four
        assert found(2) == PLAIN
        assert found(1, realtime=True) is None
        assert len(read_calibrations(path)) == 4

    def test_a_newer_one_takes_the_place_of_the_older(self, tmp_path: Path) -> None:
        path = tmp_path / "calibration.json"
        keep(PLAIN, path)
        keep(replace(PLAIN, floor_p50_s=0.5), path)
        (kept,) = read_calibrations(path)
        assert kept.floor_p50_s == 0.5

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            '{"format_version": 9, "calibrations": []}',
            '{"format_version": 1, "calibrations": [{"host": {}}]}',
        ],
    )
    def test_what_cannot_be_read_is_no_calibration(self, tmp_path: Path, text: str) -> None:
        path = tmp_path / "calibration.json"
        path.write_text(text)
        assert read_calibrations(path) == []
        keep(PLAIN, path)
        assert read_calibrations(path) == [PLAIN]

    def test_no_path_of_the_machine_is_kept(self) -> None:
        assert str(Path.home()) not in json.dumps(host_facts())

    def test_the_cache_follows_the_users_setting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
        assert cache_folder() == Path("/somewhere/loadgen")
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        assert cache_folder().is_relative_to(Path.home())
