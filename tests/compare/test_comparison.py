"""Comparisons of run folders: what they say, and what they refuse to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.compare.comparability import NotComparable
from loadgen.compare.compared_run import ComparedRun, UnusableRun, load_run, noise_on_record
from loadgen.compare.comparing import compare_runs
from loadgen.compare.comparison import CellResult, Comparison, Terms
from loadgen.compare.gate import GateState, parse_gate
from loadgen.compare.verdict import Verdict
from loadgen.errors import ExitCode, RunError
from loadgen.plan.schedule import Window
from loadgen.report.goodput import parse_goodput
from support import compared_runs as sides
from support import runs

NOISY = (0.100, 0.102, 0.099, 0.101, 0.1005)


def cell(comparison: Comparison, text: str) -> CellResult:
    return next(result for result in comparison.results if result.cell.text == text)


def compared(
    folder: Path, base_s: tuple[float, ...], candidate_s: tuple[float, ...], terms: Terms | None = None
) -> Comparison:
    return compare_runs(*sides.interleaved(folder, base_s, candidate_s), terms or Terms())


def test_a_slower_candidate_is_worse_in_what_is_slower(tmp_path: Path) -> None:
    found = compared(tmp_path, NOISY, tuple(1.2 * one for one in NOISY[::-1]))
    assert (found.verdict, found.exit_code) == (Verdict.WORSE, ExitCode.LIMIT_BROKEN)
    result = cell(found, "latency p50")
    assert result.verdict is Verdict.WORSE
    assert result.as_change(result.judged.change) == pytest.approx(0.2, abs=0.02)
    assert cell(found, "error_rate").verdict is not Verdict.WORSE


def test_values_are_medians_over_the_runs_in_the_metrics_unit(tmp_path: Path) -> None:
    found = compared(tmp_path, (0.1, 0.1, 0.9), (0.1, 0.1, 0.1))
    # 40 latencies 0.1 * (1 + k/40): the 20th smallest is 0.1 * (1 + 19/40). One odd run does not move the median.
    assert cell(found, "latency p50").base == pytest.approx(0.1475)


def test_a_faster_candidate_is_better(tmp_path: Path) -> None:
    found = compared(tmp_path, NOISY, tuple(0.8 * one for one in NOISY[::-1]))
    assert (found.verdict, found.exit_code) == (Verdict.BETTER, ExitCode.OK)


def test_the_same_build_is_not_called_worse(tmp_path: Path) -> None:
    # Field case F90: the same build, up to 3 % apart, one run 10 % off.
    found = compared(tmp_path, (0.100, 0.103, 0.110, 0.1, 0.099), (0.102, 0.1, 0.101, 0.103, 0.1))
    assert found.verdict not in (Verdict.WORSE, Verdict.BETTER)


def test_one_odd_base_run_does_not_hide_a_true_fall(tmp_path: Path) -> None:
    # Field case F90: five repeats, each side with a run 10 % off; the candidate is 20 % slower.
    found = compared(tmp_path, (0.100, 0.101, 0.110, 0.1, 0.099), (0.121, 0.12, 0.119, 0.132, 0.12))
    assert cell(found, "latency p99").verdict is Verdict.WORSE


def test_one_run_a_side_is_weak_evidence_whatever_it_shows(tmp_path: Path) -> None:
    found = compared(tmp_path, (0.1,), (0.9,))
    assert found.is_weak
    assert found.exit_code is ExitCode.INCONCLUSIVE
    assert found.verdict is Verdict.INCONCLUSIVE
    assert cell(found, "latency p50").reason == "too few runs to know the noise"


def test_one_run_a_side_decides_with_noise_on_record(tmp_path: Path) -> None:
    noise = [sides.run(tmp_path, sides.rows(one), minute=50 + n) for n, one in enumerate((*NOISY, 0.1))]
    base, candidate = sides.interleaved(tmp_path, (0.1,), (0.13,))
    found = compare_runs(base, candidate, Terms(), noise)
    assert (found.noise_pairs, found.exit_code) == (3, ExitCode.LIMIT_BROKEN)
    near = [sides.run(tmp_path, sides.rows(0.101), minute=99)]
    assert compare_runs(base, near, Terms(), noise).verdict is not Verdict.WORSE


def test_noise_is_found_beside_the_base_for_the_same_version_only(tmp_path: Path) -> None:
    def made(minute: int, version: str, **facts: Any) -> ComparedRun:
        target = {
            "url": f"http://h:{minute}",
            "model": "m",
            "dialect": "chat",
            "facts": {"version": version, "pid": minute},
        }
        return sides.run(tmp_path, sides.rows(0.1), minute=minute, target=target, **facts)

    base, candidate = made(1, "1"), made(2, "2")
    same = [made(3, "1"), made(4, "1")]
    made(5, "2")
    made(6, "1", schedule_hash="other")
    made(7, "1", status="interrupted")
    assert [run.name for run in noise_on_record(base, [base, candidate])] == [run.name for run in same]


def test_a_target_that_tells_nothing_of_itself_has_no_noise_on_record(tmp_path: Path) -> None:
    given = [sides.run(tmp_path, sides.rows(0.1), minute=minute) for minute in range(4)]
    assert noise_on_record(given[0], given[:1]) == []


def test_all_base_runs_first_is_weak_evidence(tmp_path: Path) -> None:
    base = [sides.run(tmp_path, sides.rows(one), minute=n) for n, one in enumerate(NOISY)]
    candidate = [sides.run(tmp_path, sides.rows(1.3 * one), minute=10 + n) for n, one in enumerate(NOISY)]
    found = compare_runs(base, candidate, Terms())
    assert (found.verdict, found.exit_code) == (Verdict.WORSE, ExitCode.INCONCLUSIVE)
    trusted = compare_runs(base, candidate, Terms(overridden=frozenset({"order"})))
    assert trusted.exit_code is ExitCode.LIMIT_BROKEN


def test_unequal_numbers_of_runs_are_compared_unpaired_and_said_to_be(tmp_path: Path) -> None:
    base = [sides.run(tmp_path, sides.rows(one), minute=2 * n) for n, one in enumerate(NOISY)]
    candidate = [
        sides.run(tmp_path, sides.rows(1.3 * one), minute=2 * n + 1) for n, one in enumerate(NOISY[:3])
    ]
    found = compare_runs(base, candidate, Terms())
    assert found.pairing == "unpaired"
    assert "5 runs against 3" in found.notes[0]
    assert found.verdict is Verdict.WORSE


def test_runs_are_paired_in_order_of_time_not_of_naming(tmp_path: Path) -> None:
    # Drift doubles the latency of each pair; paired, the candidate is 10 % slower throughout.
    base, candidate = sides.interleaved(tmp_path, (0.1, 0.2, 0.4, 0.8), (0.11, 0.2201, 0.441, 0.879))
    found = compare_runs(base[::-1], candidate, Terms())
    assert cell(found, "latency mean").verdict is Verdict.WORSE


def test_the_slower_server_does_not_win_by_failing(tmp_path: Path) -> None:
    # Field case F27: A loses its slow requests to a time-out, so its own latencies look better.
    def failing(latency_s: float) -> sides.Rows:
        return sides.rows(latency_s, count=100, failed=40)

    def whole(latency_s: float) -> sides.Rows:
        made = sides.rows(latency_s, count=100)
        for row in made[:40]:
            row["last_token_ns"] = row["end_ns"] = row["planned_ns"] + 9_000_000_000
        return made

    base = [sides.run(tmp_path, failing(one), minute=2 * n, length_s=10.0) for n, one in enumerate(NOISY)]
    candidate = [
        sides.run(tmp_path, whole(one), minute=2 * n + 1, length_s=10.0) for n, one in enumerate(NOISY)
    ]
    found = compare_runs(base, candidate, Terms())
    assert not found.has_equal_successes
    assert found.twins == (500, 300)
    assert found.outcomes[0] == {"ok": 300, "timeout_total": 200}
    result = cell(found, "latency p99")
    assert result.verdict is Verdict.SAME  # over the 60 that both answered
    assert result.candidate_own == pytest.approx(9.0)
    assert cell(found, "error_rate").verdict is Verdict.BETTER


def test_a_candidate_that_fails_everything_is_worse_by_its_failures(tmp_path: Path) -> None:
    base = [sides.run(tmp_path, sides.rows(one), minute=2 * n) for n, one in enumerate(NOISY)]
    candidate = [sides.run(tmp_path, sides.rows(1.0, failed=40), minute=2 * n + 1) for n in range(5)]
    found = compare_runs(base, candidate, Terms())
    assert found.exit_code is ExitCode.LIMIT_BROKEN
    assert cell(found, "error_rate").verdict is Verdict.WORSE
    missing = cell(found, "latency p50")
    assert (missing.base, missing.candidate, missing.verdict) == (None, None, Verdict.INCONCLUSIVE)
    assert missing.reason == "no run has a value over requests that succeeded on both sides"
    assert missing.base_own is not None
    json.dumps(found.as_json(), allow_nan=False)


def test_two_sides_that_fail_everything_are_not_compared_by_latency(tmp_path: Path) -> None:
    made = [sides.run(tmp_path, sides.rows(1.0, failed=40), minute=n) for n in range(6)]
    found = compare_runs(made[::2], made[1::2], Terms())
    assert found.verdict is not Verdict.WORSE
    assert [result.cell.text for result in found.deciding] == ["error_rate"]


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"trace": {"name": "u.parquet", "trace_id": "other"}}, "trace"),
        ({"schedule_hash": "other"}, "schedule"),
        ({"shape": {"speedup": 2.0}}, "shape.speedup"),
        ({"shape": {"peak": {"factor": 3.0}}}, "shape.peak.factor"),
        ({"settings": {"timeout": "3s"}}, "timeout"),
        ({"settings": {"max_concurrency": 4}}, "max_concurrency"),
        ({"versions": {"loadgen": "9"}}, "loadgen"),
        ({"target": {"url": "http://h", "model": "m", "dialect": "completions", "facts": None}}, "dialect"),
    ],
)
def test_runs_of_another_load_or_limit_are_not_comparable(
    tmp_path: Path, facts: dict[str, Any], field: str
) -> None:
    # Field case F89.
    base = [sides.run(tmp_path, sides.rows(0.1), minute=0)]
    candidate = [sides.run(tmp_path, sides.rows(0.1), minute=1, **facts)]
    with pytest.raises(NotComparable) as caught:
        compare_runs(base, candidate, Terms())
    assert caught.value.exit_code is ExitCode.BAD_INPUT
    assert f"{field} a=" in caught.value.message
    head = field.partition(".")[0]
    assert compare_runs(base, candidate, Terms(overridden=frozenset({head}))).base


def test_another_version_of_the_target_is_listed_not_refused(tmp_path: Path) -> None:
    # Field case F89.
    def target(version: str) -> dict[str, Any]:
        return {
            "url": "http://h",
            "model": "m",
            "dialect": "chat",
            "facts": {"version": version, "flags": {"x": 1}},
        }

    base = [sides.run(tmp_path, sides.rows(0.1), minute=0, target=target("1"))]
    candidate = [sides.run(tmp_path, sides.rows(0.1), minute=1, target=target("2"))]
    assert [one.text for one in compare_runs(base, candidate, Terms()).changed] == ["version a=1 b=2"]


def test_a_metric_that_is_defined_otherwise_is_refused_and_the_others_compared(tmp_path: Path) -> None:
    # Field case F91.
    base, candidate = sides.interleaved(tmp_path, NOISY, tuple(1.3 * one for one in NOISY))
    for run in candidate:
        text = run.folder.report_path.read_text().replace('"ttft/1"', '"ttft/2"')
        run.folder.report_path.write_text(text)
    found = compare_runs(base, [load_run(run.folder.path) for run in candidate], Terms())
    assert [one.text for one in found.refused] == ["ttft a=ttft/1 b=ttft/2"]
    assert not [result for result in found.results if result.cell.metric == "ttft"]
    assert cell(found, "latency p50").verdict is Verdict.WORSE


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"status": "interrupted"}, "interrupted"),
        ({"status": "running"}, "killed or still running"),
        ({"generator": {"workers": [runs.health(0, loop_lag_p99_s=0.4)], "lost": []}}, "overloaded"),
    ],
)
def test_a_run_that_says_nothing_is_refused(tmp_path: Path, facts: dict[str, Any], words: str) -> None:
    base = [sides.run(tmp_path, sides.rows(0.1), minute=0)]
    candidate = [sides.run(tmp_path, sides.rows(0.1), minute=1, **facts)]
    with pytest.raises(UnusableRun, match=words) as caught:
        compare_runs(base, candidate, Terms())
    assert caught.value.exit_code is ExitCode.RUN_INVALID
    assert compare_runs(base, candidate, Terms(overridden=frozenset({"validity"}))).base


def windowed(latency_s: float, peak_factor: float = 1.0) -> sides.Rows:
    made = sides.rows(latency_s)
    for row in made[20:30]:
        row["window"] = "peak-1"
        span = round((row["last_token_ns"] - row["planned_ns"]) * peak_factor)
        row["last_token_ns"] = row["end_ns"] = row["planned_ns"] + span
    return made


WINDOWS = (
    Window("baseline", 0, 2_000_000_000), Window("peak-1", 2_000_000_000, 3_000_000_000),
    Window("baseline", 3_000_000_000, 4_000_000_000),
)  # fmt: skip


def test_a_fall_in_one_window_is_named_by_window_and_metric(tmp_path: Path) -> None:
    base = [sides.run(tmp_path, windowed(one), minute=2 * n, windows=WINDOWS) for n, one in enumerate(NOISY)]
    candidate = [
        sides.run(tmp_path, windowed(one, 1.5), minute=2 * n + 1, windows=WINDOWS)
        for n, one in enumerate(NOISY)
    ]
    found = compare_runs(base, candidate, Terms())
    assert cell(found, "latency p50 @peak-1").verdict is Verdict.WORSE
    assert cell(found, "latency p50 @baseline").verdict is Verdict.SAME
    parts = {part.label: part.ratio for part in found.parts if part.kind == "window"}
    assert parts == pytest.approx({"baseline": 1.0, "peak-1": 1.5}, abs=0.03)
    assert {twin.window for twin in found.worst} == {"peak-1"}
    assert found.worst[0].trace_row == 29  # the slowest of the window grew most


def test_a_window_without_requests_has_no_value_and_decides_nothing(tmp_path: Path) -> None:
    empty = (*WINDOWS[:2], Window("burst-1", 3_000_000_000, 3_000_000_000), WINDOWS[2])
    made = [sides.run(tmp_path, windowed(one), minute=n, windows=empty) for n, one in enumerate(NOISY * 2)]
    found = compare_runs(made[::2], made[1::2], Terms())
    missing = cell(found, "latency p50 @burst-1")
    assert (missing.base, missing.candidate, missing.verdict) == (None, None, Verdict.INCONCLUSIVE)
    assert missing.reason == "no run has a value over requests that succeeded on both sides"
    assert cell(found, "latency p50").verdict is Verdict.SAME
    json.dumps(found.as_json(), allow_nan=False)


def test_a_metric_that_one_side_lacks_is_said_to_be_missing_there(tmp_path: Path) -> None:
    def whole_answers(latency_s: float) -> sides.Rows:
        return [{**row, "first_token_ns": None} for row in sides.rows(latency_s)]

    base = [sides.run(tmp_path, sides.rows(one), minute=2 * n) for n, one in enumerate(NOISY)]
    candidate = [sides.run(tmp_path, whole_answers(one), minute=2 * n + 1) for n, one in enumerate(NOISY)]
    missing = cell(compare_runs(base, candidate, Terms()), "ttft p50")
    assert (missing.candidate, missing.verdict) == (None, Verdict.INCONCLUSIVE)
    assert missing.reason == "the candidate has no value"


def test_a_gate_decides_instead_of_the_verdict(tmp_path: Path) -> None:
    terms = Terms(gates=(parse_gate("latency p50 > +50%"),))
    found = compared(tmp_path, NOISY, tuple(1.2 * one for one in NOISY[::-1]), terms)
    assert [one.state for one in found.gates] == [GateState.HELD]
    assert found.exit_code is ExitCode.OK
    tight = Terms(gates=(parse_gate("latency p50 > +5%"), parse_gate("error_rate > +99%")))
    broken = compared(tmp_path / "b", NOISY, tuple(1.2 * one for one in NOISY[::-1]), tight)
    assert [one.state for one in broken.gates] == [GateState.BROKEN, GateState.HELD]
    assert broken.exit_code is ExitCode.LIMIT_BROKEN


def test_a_gate_cannot_be_told_from_one_run_a_side(tmp_path: Path) -> None:
    found = compared(tmp_path, (0.1,), (0.9,), Terms(gates=(parse_gate("latency p50 > +5%"),)))
    assert found.exit_code is ExitCode.INCONCLUSIVE


def test_a_gate_of_a_window_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no window peak-9"):
        compared(tmp_path, (0.1,), (0.1,), Terms(gates=(parse_gate("latency p99 @peak-9 > 5%"),)))


def test_goodput_is_compared_by_the_bounds_that_are_given(tmp_path: Path) -> None:
    # 0.1 * (1 + k/40) is under 150 ms for half of the requests; 20 % slower, for a quarter.
    terms = Terms(bounds=parse_goodput(["latency:150ms"]))
    found = compared(tmp_path, NOISY, tuple(1.2 * one for one in NOISY[::-1]), terms)
    result = cell(found, "goodput")
    assert result.base == pytest.approx(0.5, abs=0.06)
    assert result.verdict is Verdict.WORSE
    assert not [r for r in compared(tmp_path / "b", (0.1,), (0.1,)).results if r.cell.metric == "goodput"]


def test_server_figures_come_from_the_report(tmp_path: Path) -> None:
    found = compared(tmp_path, NOISY, NOISY)
    # 80 tokens in 4 s, less what came after the end.
    assert cell(found, "output_token_rate").base == pytest.approx(20, rel=0.05)


def test_the_document_is_strict_json_with_changes_as_shares(tmp_path: Path) -> None:
    found = compared(tmp_path, NOISY, tuple(1.2 * one for one in NOISY[::-1]))
    document = json.loads(json.dumps(found.as_json(), allow_nan=False))
    one = next(c for c in document["cells"] if (c["metric"], c["statistic"]) == ("latency", "p50"))
    assert one["unit"] == "s"
    assert one["low"] < one["change"] < one["high"]
    assert one["change"] == pytest.approx(0.2, abs=0.02)
    assert document["verdict"] == "worse"


def test_the_order_of_rows_in_a_file_does_not_matter(tmp_path: Path) -> None:
    base, candidate = sides.interleaved(tmp_path, NOISY, tuple(1.2 * one for one in NOISY))
    straight = compare_runs(base, candidate, Terms())
    for run in candidate:
        table = run.folder.read_requests()
        run.folder.write_requests(table.take(np.random.default_rng(0).permutation(table.num_rows)))
    mixed = compare_runs(base, candidate, Terms())
    assert [r.judged.change for r in mixed.results] == pytest.approx(
        [r.judged.change for r in straight.results], nan_ok=True
    )
    assert mixed.worst == straight.worst
