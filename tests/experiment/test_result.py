"""Result and Row: an experiment's figures, from run folders made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.experiment import words
from loadgen.experiment.matrix import Cell
from loadgen.experiment.result import Result, result_of, rows_of
from support import runs


def test_throughput_is_answers_over_the_time_until_the_last_of_them(tmp_path: Path) -> None:
    # Three answers, the last 4 s after the first planned send; the run was planned to last 10 s.
    rows = [
        runs.ok(1.0, first_s=1.1, last_s=2.0),
        runs.ok(1.5, first_s=1.6, last_s=5.0),
        runs.ok(2.0, first_s=2.1, last_s=3.0),
        runs.failed(2.5, "rejected", end_s=2.6),
        runs.failed(3.0, "http_error", end_s=9.0),
    ]
    folder = runs.written(tmp_path, rows)
    result = result_of(folder.path, Cell("t", "l", 0))
    assert result.values["throughput"] == pytest.approx(3 / 4)
    assert (result.values["rejected"], result.values["failed"]) == (1, 1)
    assert result.values["latency_mean"] == pytest.approx((1.0 + 3.5 + 1.0) / 3)
    assert result.values["useful_row_share"] is None
    assert result.kept is None


def made(
    target: str, p99: float | None, *, repeat: int = 0, valid: bool = True, kept: bool | None = None
) -> Result:
    from loadgen.experiment.result import COLUMNS

    values = dict.fromkeys((column.key for column in COLUMNS), None) | {"latency_p99": p99, "throughput": 5.0}
    return Result(Cell(target, "load", repeat), "run", valid, kept, values, {"baseline": (0.1, 0.2)})


def test_a_row_is_the_median_of_its_repeats_with_their_range() -> None:
    results = [made("a", p99, repeat=k, valid=k != 2, kept=k > 0) for k, p99 in enumerate((0.3, 0.1, 0.2))]
    (row,) = rows_of(results, ["load"], ["a", "b"])
    assert row.values["latency_p99"] == 0.2
    assert row.spread["latency_p99"] == (0.1, 0.3)
    assert (row.runs, row.invalid, row.kept) == (3, 1, 2)
    shown = words.table([row])
    assert shown.rows[0][:2] == ("load", "a*")
    assert "200 ms (100 ms .. 300 ms)" in shown.rows[0]
    assert shown.rows[0][-1] == "2 of 3"
    assert any("late in a at load (1 of 3)" in note for note in words.notes([row]))


def test_columns_that_nobody_has_are_not_shown_and_a_missing_value_is_a_dash() -> None:
    rows = rows_of([made("a", 0.3), made("b", None)], ["load"], ["a", "b"])
    shown = words.table(rows)
    assert "queue" not in shown.heads
    assert shown.rows[1][shown.heads.index("p99")] == "-"


def test_the_chart_names_who_serves_most() -> None:
    (chart,) = words.charts(rows_of([made("a", 0.3), made("b", 0.4)], ["load"], ["a", "b"]))
    assert "most is served by a: 5 answers a second" in chart.words
