"""Charts of a trace say what its figures say."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from loadgen.plan.summary import bin_moments
from loadgen.report.chart import Chart, LineChart
from loadgen.report.plots import write_picture
from loadgen.report.trace_charts import charts_of_trace
from loadgen.trace.gap_spread import gap_spread
from loadgen.trace.trace import Trace
from support.traces import trace_of

# Two at once, then one a second later, and so on.
TIES = trace_of([0, 0, 1, 1, 2, 2, 3, 4], input_tokens=[1, 2, 3, 4, 5, 6, 7, 900], output_tokens=[0, 1] * 4)


def charts(trace: Trace) -> list[Chart]:
    return charts_of_trace(trace, bin_moments(trace.arrival_ns, 4 * 10**9 + 1, [""] * 4), gap_spread(trace))


def test_each_chart_has_words_and_a_row_for_each_number() -> None:
    found = charts(TIES)
    assert [chart.name for chart in found] == ["rate", "gaps", "input-and-output-lengths"]
    rate, gaps, lengths = found
    assert [row[1] for row in rate.table.rows] == ["4", "2", "1", "1"]
    assert gaps.table.rows[0] == ("0 (ties)", "42.9%", "0.0%")
    assert "ties 42.9%" in gaps.words
    assert lengths.table.rows == (
        ("input tokens", "1", "4", "900", "900", "900", "116.0", "0"),
        ("output tokens", "0", "0", "1", "1", "1", "0.5", "0"),
    )


def test_what_has_no_place_on_an_axis_of_ratios_is_where_the_line_begins() -> None:
    gaps = charts(TIES)[1]
    assert isinstance(gaps, LineChart)
    recorded = gaps.panels[0].lines[0]
    assert gaps.x_is_log
    assert min(recorded.x) > 0
    assert recorded.y[0] == pytest.approx(300 / 7)
    assert recorded.y[-1] == 100


def test_poisson_rises_from_nearly_nothing_to_nearly_all() -> None:
    gaps = charts(TIES)[1]
    assert isinstance(gaps, LineChart)
    heights = [value for value in gaps.panels[0].lines[1].y if value is not None]
    assert heights == sorted(heights)
    assert heights[0] < 1
    assert heights[-1] > 99


def test_lengths_of_two_units_are_two_charts_and_what_is_not_there_is_none() -> None:
    arrivals_only = trace_of([0.0, 0.0], input_tokens=[None] * 2, output_tokens=[None] * 2)
    assert charts_of_trace(arrivals_only, None, None) == []
    mixed = trace_of([0, 1], input_tokens=[None] * 2, input_bytes=[5, 6])
    names = [chart.name for chart in charts_of_trace(mixed, None, gap_spread(mixed))]
    assert names == ["gaps", "input-lengths", "output-lengths"]


@pytest.mark.parametrize("form", ["png", "svg"])
def test_all_charts_become_one_picture_the_same_each_time(form: str, tmp_path: Path) -> None:
    first, second = tmp_path / f"a.{form}", tmp_path / f"b.{form}"
    for path in (first, second):
        write_picture(charts(TIES), path)
    assert first.read_bytes() == second.read_bytes()
    if form == "svg":
        assert ET.parse(first).getroot().tag.endswith("svg")
        written = first.read_text(encoding="utf-8")
        assert all(chart.title in written for chart in charts(TIES))
    else:
        assert first.read_bytes().startswith(b"\x89PNG")
