"""report.json read back is what was reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import RunError
from loadgen.report.figures import Distribution, Missing
from loadgen.report.metric import METRICS
from loadgen.report.report import build_report, write_report
from loadgen.report.stored import read_report
from loadgen.report.validity import Thresholds
from support.runs import failed, ok, written

ROWS = [ok(0.1 * k, first_s=0.1 * k + 0.05, last_s=0.1 * k + 0.2) for k in range(40)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = written(tmp_path, [*ROWS, failed(5, "rejected", end_s=5.1)])
    write_report(build_report(folder, Thresholds()), folder)
    return folder.report_path


def changed(path: Path, **changes: Any) -> Path:
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(document | changes), encoding="utf-8")
    return path


def test_every_figure_comes_back_as_it_was(tmp_path: Path) -> None:
    folder = written(tmp_path, [*ROWS, failed(5, "rejected", end_s=5.1)])
    built = build_report(folder, Thresholds())
    write_report(built, folder)
    found = read_report(folder.report_path)
    assert found.figures == {one.label: one.figures for one in built.measured}
    assert isinstance(found.figure("overall", "latency"), Distribution)
    assert found.figure("overall", "error_rate") == 1 / 41
    assert found.figure("overall", "queue_share") == Missing("the server tells no stages")


def test_what_the_run_was_comes_back_too(path: Path) -> None:
    found = read_report(path)
    assert (found.run_id, found.status, found.is_valid) == ("test-run", "complete", True)
    assert found.outcomes == {"ok": 40, "rejected": 1}
    assert sum(found.outcomes.values()) == found.planned


def test_each_metric_keeps_its_unit_and_definition(path: Path) -> None:
    # F91: what compares two reports sees by the id whether a name means the same in both.
    found = read_report(path)
    assert found.definition_ids == {metric.name: metric.definition_id for metric in METRICS}
    assert found.units["ttft"] == "s"


def test_a_window_that_the_run_does_not_have_is_missing_by_name(path: Path) -> None:
    assert read_report(path).figure("peak-1", "latency") == Missing("the run has no window peak-1")


def test_a_newer_report_is_refused(path: Path) -> None:
    with pytest.raises(RunError, match="newer than 1") as refused:
        read_report(changed(path, format_version=2))
    assert refused.value.hint == "install a newer loadgen"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format_version": 1}', '{"format_version": NaN}'])
def test_what_is_no_report_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=r"report\.json") as refused:
        read_report(path)
    assert "\n" not in refused.value.message


def test_a_report_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"report\.json"):
        read_report(tmp_path / "report.json")


def test_a_figure_that_lacks_its_value_breaks_the_format(path: Path) -> None:
    windows = [{"label": "overall", "metrics": {"latency": {"unit": "s"}}}]
    with pytest.raises(RunError, match="breaks the report format"):
        read_report(changed(path, windows=windows))
