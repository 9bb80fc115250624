"""An experiment as one HTML page that works offline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from loadgen.experiment import words
from loadgen.experiment.result import Result, Row
from loadgen.report import html
from loadgen.report.chart import Table
from loadgen.report.plotly_figures import figure_of


def as_page(
    title: str, about: str, rows: Sequence[Row], loads: Sequence[str], results: Sequence[Result]
) -> str:
    """The page. Raises UsageError where the charting library is not installed."""
    charts = words.charts(rows)
    figures = [figure_of(chart) for chart in charts]
    return html.page(
        f"loadgen experiment: {title}", _body(title, about, rows, loads, results, charts, figures), figures
    )


def _body(
    title: str,
    about: str,
    rows: Sequence[Row],
    loads: Sequence[str],
    results: Sequence[Result],
    charts: Sequence[Any],
    figures: Sequence[dict[str, Any]],
) -> Iterable[str]:
    yield from html.header(title)
    if about:
        yield f"<p>{html.text(about)}</p>"
    yield html.UNDRAWN
    yield from html.section("Targets side by side", _tables(rows))
    for place, (chart, figure) in enumerate(zip(charts, figures, strict=True)):
        yield from html.figure(chart, figure["height_px"], place)
    for load in loads:
        if (found := words.windows_table(rows, load)) is not None:
            yield from html.section(f"Windows of {load}", html.table(found, f"Windows of {load}"))
    columns = tuple((column.head, column.about) for column in words.shown_columns(rows))
    yield from html.section(
        "What each column is", html.table(Table(("column", "definition"), columns), "Columns", text_from=1)
    )
    runs = tuple(
        (
            one.cell.load,
            one.cell.target,
            str(one.cell.repeat + 1),
            one.run,
            "valid" if one.valid else "generator late",
        )
        for one in results
    )
    yield from html.section(
        "Runs", html.table(Table(("load", "target", "repeat", "folder", "run"), runs), "Runs", text_from=3)
    )
    yield "</main>"


def _tables(rows: Sequence[Row]) -> Iterable[str]:
    yield from html.table(words.table(rows), "Targets side by side")
    for note in words.notes(rows):
        yield f'<p class="faint">{html.text(note)}</p>'
