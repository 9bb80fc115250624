"""A comparison as one HTML page that needs nothing else, made of the same parts as the page of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from loadgen.compare import words
from loadgen.compare.comparison import CellResult, Comparison
from loadgen.compare.gate import GateState
from loadgen.durations import format_duration
from loadgen.errors import ExitCode
from loadgen.report import html
from loadgen.report.chart import Chart, LineChart, Table
from loadgen.report.plotly_figures import figure_of

# Rows before the charts; all figures stand below them.
_MAX_OTHERS = 12
_HEADS = ("figure", "base", "candidate", "change", "interval", "verdict")


def as_page(comparison: Comparison, charts: Sequence[Chart]) -> str:
    """The page. Raises UsageError where the charting library is not installed."""
    figures = [figure_of(chart) for chart in charts]
    title = f"loadgen comparison: {words.headline(comparison)}"
    return html.page(title, _body(comparison, charts, figures), figures)


def _body(
    comparison: Comparison, charts: Sequence[Chart], figures: Sequence[dict[str, Any]]
) -> Iterable[str]:
    yield from html.header(words.headline(comparison))
    yield from _summary(comparison)
    yield html.UNDRAWN
    yield from html.section("Figures that decide", _table(comparison.deciding, "Figures that decide"))
    if others := words.beyond_deciding(comparison):
        yield from html.section("Other figures and windows that differ", _others(others))
    has_zooms = False
    for place, (chart, figure) in enumerate(zip(charts, figures, strict=True)):
        is_first_timed = isinstance(chart, LineChart) and chart.is_time and not has_zooms
        has_zooms |= is_first_timed
        zooms = html.zooms(chart.shaded) if is_first_timed and isinstance(chart, LineChart) else ()
        yield from html.figure(chart, figure["height_px"], place, zooms)
    if not comparison.has_equal_successes:
        yield from html.section("Each side's own successes", _own(comparison))
    if comparison.parts:
        yield from html.section("Where it sits", _where(comparison))
    yield from html.section("All figures", _every(comparison))
    yield from html.section("What was compared", _compared(comparison))
    yield "</main>"


def _summary(comparison: Comparison) -> Iterable[str]:
    yield f'<p class="faint">{html.text(words.design(comparison))}; {html.text(words.method(comparison))}.</p>'
    kind, strong = {
        ExitCode.OK: ("good", "Nothing is worse"),
        ExitCode.LIMIT_BROKEN: ("bad", "Worse"),
    }.get(comparison.exit_code, ("warn", "Not decided"))
    yield html.state(kind, strong, f"{words.headline(comparison)} (exit code {int(comparison.exit_code)})")
    for reason in comparison.weak:
        yield html.state("warn", "Evidence weak", f"{reason}; loadgen ab gives an answer that holds")
    for gate in comparison.gates:
        mark = {GateState.BROKEN: "bad", GateState.HELD: "good"}.get(gate.state, "warn")
        yield html.state(mark, "Gate", words.gate_words(gate))
    if (text := words.more(comparison)) is not None:
        yield f"<p>{html.text(text)}.</p>"
    for line in words.failures(comparison):
        yield f"<p>{html.text(line)}</p>"
    for reason in words.reasons(comparison):
        yield f"<p>{html.text(reason)}</p>"


def _table(results: Iterable[CellResult], label: str) -> Iterable[str]:
    yield from html.table(Table(_HEADS, tuple(words.row(one) for one in results)), label)


def _others(results: Sequence[CellResult]) -> Iterable[str]:
    yield from _table(results[:_MAX_OTHERS], "Others that differ")
    if len(results) > _MAX_OTHERS:
        yield f'<p class="faint">{len(results) - _MAX_OTHERS} more are among all figures below.</p>'


def _own(comparison: Comparison) -> Iterable[str]:
    rows = tuple(words.own_row(one) for one in comparison.deciding if one.cell.statistic is not None)
    yield from html.table(Table(("figure", "base", "candidate"), rows), "Each side's own successes")


def _where(comparison: Comparison) -> Iterable[str]:
    yield (
        '<p class="faint">Mean latency of the requests that succeeded on both sides. It tells where a difference '
        "sits, not whether there is one: the twins of a pair share its noise.</p>"
    )
    heads = ("by", "part", "requests", "base to candidate", "change")
    yield from html.table(Table(heads, tuple(words.part_words(comparison.parts))), "Where it sits")
    if comparison.worst:
        twins = tuple(
            (
                f"{one.trace_row}" + (f" copy {one.copy}" if one.copy else ""),
                f"{one.planned_s:.2f} s",
                one.window,
                "?" if one.input_tokens is None else str(one.input_tokens),
                "?" if one.output_tokens is None else str(one.output_tokens),
                format_duration(one.base_s),
                format_duration(one.candidate_s),
            )
            for one in comparison.worst
        )
        of_twins = ("grew most: row", "planned", "window", "input", "output", "base", "candidate")
        yield from html.table(Table(of_twins, twins), "Requests that grew most")


def _every(comparison: Comparison) -> Iterable[str]:
    yield f"<details><summary>{len(comparison.results)} figures</summary>"
    yield from _table(comparison.results, "All figures")
    yield "</details>"


def _compared(comparison: Comparison) -> Iterable[str]:
    rows = [
        ("base", " ".join(run.name for run in comparison.base)),
        ("candidate", " ".join(run.name for run in comparison.candidate)),
        *((f"changed: {one.field}", f"{one.base} to {one.candidate}") for one in comparison.changed),
        *(
            (f"not compared: {one.field}", f"defined as {one.base} and as {one.candidate}")
            for one in comparison.refused
        ),
        *(("note", note) for note in comparison.notes),
    ]
    yield from html.table(Table(("what", "value"), tuple(rows)), "What was compared", text_from=1)
