"""A trace as one HTML page that needs nothing else, made of the same parts as the page of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from loadgen.report import html
from loadgen.report.chart import Chart
from loadgen.report.plotly_figures import figure_of


def as_page(name: str, facts: str, charts: Sequence[Chart], notes: Sequence[str]) -> str:
    """name: of the trace. facts: its main figures in a line. notes: what cannot be shown, and what its source said.

    Raises UsageError where the charting library is not installed.
    """
    figures = [figure_of(chart) for chart in charts]
    return html.page(f"loadgen trace: {name}", _body(name, facts, charts, figures, notes), figures)


def _body(
    name: str, facts: str, charts: Sequence[Chart], figures: Sequence[dict[str, Any]], notes: Sequence[str]
) -> Iterable[str]:
    yield from html.header(name)
    yield f"<p>{html.text(facts)}</p>"
    yield html.UNDRAWN
    for place, (chart, figure) in enumerate(zip(charts, figures, strict=True)):
        yield from html.figure(chart, figure["height_px"], place)
    if notes:
        yield from html.section(
            "Notes", ["<ul>", *(f"<li>{html.text(note)}</li>" for note in notes), "</ul>"]
        )
    yield "</main>"
