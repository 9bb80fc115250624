"""Charts as files: each as PNG and as SVG, the words with it, the same bytes for the same run."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from loadgen.errors import UsageError
from loadgen.plan.schedule import Window
from loadgen.report.chart import Chart
from loadgen.report.charts import charts_of
from loadgen.report.curves import curves
from loadgen.report.plots import write_plots
from loadgen.report.recorded_run import read_run
from loadgen.report.report import report_of
from loadgen.report.validity import Thresholds
from support.runs import failed, ns, ok, written

WINDOWS = (Window("baseline", 0, ns(3)), Window("peak-1", ns(3), ns(4)))


def some_charts(folder: Path) -> list[Chart]:
    rows = [
        ok(k / 10, first_s=k / 10 + 0.05, last_s=k / 10 + 0.2 + k / 100, prompt_tokens=k + 1)
        for k in range(30)
    ]
    rows += [failed(3 + k / 10, "rejected", end_s=3.1 + k / 10, window="peak-1") for k in range(5)]
    read = read_run(written(folder, rows, windows=WINDOWS, length_s=4.0))
    built = report_of(read, Thresholds())
    return charts_of(built, curves(read.seen, built.timeline.bin_s, len(built.timeline.labels)))


def test_each_chart_becomes_two_files(tmp_path: Path) -> None:
    charts = some_charts(tmp_path)
    paths = write_plots(charts, tmp_path / "plots")
    assert [path.name for path in paths] == [f"{c.name}.{form}" for c in charts for form in ("png", "svg")]
    assert {"timeline", "latency-ecdf", "latency-heat", "failures", "lateness"} <= {
        chart.name for chart in charts
    }
    for path in paths:
        if path.suffix == ".png":
            assert path.read_bytes().startswith(b"\x89PNG")
        else:
            assert ET.parse(path).getroot().tag.endswith("svg")


def test_a_picture_carries_its_words_and_the_same_run_makes_the_same_bytes(tmp_path: Path) -> None:
    charts = some_charts(tmp_path)[:1]
    first, second = (write_plots(charts, tmp_path / name)[1].read_bytes() for name in ("a", "b"))
    assert first == second
    assert b"in flight at most" in first


def test_a_folder_that_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "plots").write_text("a file", encoding="utf-8")
    with pytest.raises(UsageError, match=r"plots.*cannot be written"):
        write_plots(some_charts(tmp_path)[:1], tmp_path / "plots")
