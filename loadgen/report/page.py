"""A report as one HTML page that needs nothing else: no server, no network, no file beside it."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib import resources
from typing import Any

import loadgen
from loadgen.durations import format_duration
from loadgen.errors import UsageError
from loadgen.report import words
from loadgen.report.chart import Chart, LineChart, Shade, Table
from loadgen.report.figures import Distribution, Missing
from loadgen.report.measures import Measures
from loadgen.report.metric import BY_NAME, METRICS
from loadgen.report.plotly_figures import figure_of
from loadgen.report.report import Report
from loadgen.report.validity import MAX_LOOP_LAG_S

# Columns of the table of metrics; of more windows, those of interest.
_MAX_WINDOWS = 12
_MAX_ZOOMS = 8
_FIRST: tuple[tuple[str, str | None], ...] = (
    ("offered_rate", None),
    ("served_rate", None),
    ("output_token_rate", None),
    ("error_rate", None),
    ("goodput", None),
    ("latency", "mean"),
    ("latency", "p50"),
    ("latency", "p99"),
    ("ttft", "p50"),
    ("ttft", "p99"),
    ("tpot", "p50"),
    ("queue_share", None),
    ("mean_batch", None),
    ("lateness", "p99"),
    ("recovery_s", None),
)
_STATISTICS: tuple[str | None, ...] = ("mean", "p50", "p90", "p99", "max")
# Room around a window that is zoomed to, of its own length.
_AROUND = 1.5
_HELD = {
    True: ("good", "held"),
    False: ("bad", "did not hold"),
    None: ("warn", "cannot be told"),
}


def as_page(report: Report, charts: Sequence[Chart]) -> str:
    """The page. Raises UsageError where the charting library is not installed."""
    library = _library()
    figures = [figure_of(chart) for chart in charts]
    script = _asset("page.js")
    title = f"loadgen report: {words.plain(str(report.facts.get('run_id')))}"
    # Only these two scripts run, whatever a target's text says, and nothing is asked of anywhere.
    policy = (
        f"default-src 'none'; script-src {_hash(script)} {_hash(library)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    packed = base64.b64encode(zlib.compress(library.encode(), 9)).decode()
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta name="generator" content="loadgen {escape(loadgen.__version__)}">',
            f"<title>{_text(title)}</title>",
            f"<style>{_asset('page.css')}</style></head><body>",
            *_body(report, charts, figures),
            f'<script type="application/json" id="figures">{_json(figures)}</script>',
            f'<script type="text/plain" id="library">{packed}</script>',
            f"<script>{script}</script>",
            "</body></html>\n",
        ]
    )


def _body(report: Report, charts: Sequence[Chart], figures: Sequence[dict[str, Any]]) -> Iterable[str]:
    yield f"<header><h1>{_text(words.title(report))}</h1>"
    yield '<button id="theme" type="button" hidden>Dark colours</button></header><main>'
    yield from _summary(report)
    yield '<p id="undrawn" class="state warn" hidden>This browser cannot draw the charts; each has its numbers '
    yield "in a table.</p><noscript><p>Without scripts, the numbers of each chart are in its table.</p></noscript>"
    yield from _section("Figures", _metrics(report))
    for place, (chart, figure) in enumerate(zip(charts, figures, strict=True)):
        yield from _figure(chart, figure["height_px"], place)
    if len(report.outcomes) > 1:
        yield from _section("How requests ended", _outcomes(report))
    if report.limits:
        yield from _section("Limits", _limits(report))
    yield from _section("Sending", _sending(report))
    if report.warnings or isinstance(report.stages, Missing):
        yield from _section("Notes", _notes(report))
    yield from _section("What was run", _facts(report))
    yield "</main>"


def _summary(report: Report) -> Iterable[str]:
    yield f'<p class="faint">{_text(words.what(report))}</p>'
    if report.validity.is_valid:
        yield _state("good", "Valid", f"sent as planned: {words.lateness(report)}")
    else:
        reasons = "; ".join(report.validity.reasons)
        yield _state("bad", "INVALID: the generator was the limit", reasons)
    yield f"<p>{_text(words.counts(report))}</p>"
    held_least = words.held_least(report)
    if held_least is not None:
        kind, held = _HELD[held_least.has_held]
        yield _state(kind, f"{held_least.label} {held}", f"{held_least.words}; {held_least.recovery_words}")
    for judged in words.broken_limits(report):
        value = words.in_unit(judged.value, BY_NAME[judged.limit.metric].unit)
        yield _state("bad", f"limit {judged.limit.text} broken", value)
    yield '<h2>Why</h2><ul class="verdicts">'
    for verdict in report.diagnosis:
        kind = "good" if verdict.name == "healthy" else "warn"
        yield f'<li class="{kind}"><strong>{_text(verdict.name)}</strong>: {_text(verdict.evidence)}'
        yield f'<p class="next">Next: {_text(verdict.next_step)}</p></li>'
    yield "</ul>"


def _metrics(report: Report) -> Iterable[str]:
    occupied = [one for one in report.measured if one.requests or one.label == "overall"]
    shown = words.most_telling(report, occupied, _MAX_WINDOWS)
    heads = ("metric", *(one.label for one in shown))
    first = [
        ("requests", *(str(one.requests) for one in shown)),
        ("seconds", *(f"{one.duration_s:.1f}" for one in shown)),
        *(_row(shown, name, statistic) for name, statistic in _FIRST),
    ]
    yield from _table(Table(heads, tuple(row for row in first if _says(row))), "Main figures by window")
    if len(occupied) > len(shown):
        yield f'<p class="faint">{len(occupied) - len(shown)} more windows are in report.json.</p>'
    every = [
        _row(shown, metric.name, statistic)
        for metric in METRICS
        for statistic in (_STATISTICS if metric.per_request else (None,))
    ]
    yield "<details><summary>All figures</summary>"
    yield from _table(Table(heads, tuple(row for row in every if _says(row))), "All figures by window")
    yield "</details><details><summary>What each figure counts</summary><div>"
    defined = tuple((metric.name, metric.definition_id, metric.definition) for metric in METRICS)
    yield from _table(Table(("metric", "id", "definition"), defined), "Definitions", text_from=1)
    yield (
        "<p>Percentiles by nearest rank: each is a value that was observed. Latency and TTFT count from the "
        "planned send, of successes.</p></div></details>"
    )


def _row(shown: Sequence[Measures], name: str, statistic: str | None) -> tuple[str, ...]:
    return (words.named(name, statistic), *(words.cell(one, name, statistic) for one in shown))


def _says(row: Sequence[str]) -> bool:
    return any(cell != "-" for cell in row[1:])


def _figure(chart: Chart, height_px: int, place: int) -> Iterable[str]:
    name = escape(chart.name)
    yield f'<section aria-labelledby="h-{name}"><h2 id="h-{name}">{_text(chart.title)}</h2>'
    if place == 0 and isinstance(chart, LineChart):
        yield from _zooms(chart.shaded)
    yield f'<figure aria-describedby="w-{name}">'
    yield (
        f'<div class="plot" data-figure="{place}" style="height:{height_px}px" role="img" '
        f'aria-label="{_text(chart.title)}: {_text(chart.words)}"></div>'
    )
    yield f'<figcaption id="w-{name}">{_text(chart.words)}</figcaption></figure>'
    yield f"<details><summary>{_text(chart.title)}: the numbers</summary>"
    yield from _table(chart.table, chart.title)
    yield "</details></section>"


def _zooms(shaded: Sequence[Shade]) -> Iterable[str]:
    yield '<div class="zoom" role="group" aria-label="Zoom of all charts over time">'
    yield '<button type="button" data-whole>Whole run</button>'
    for shade in shaded[:_MAX_ZOOMS]:
        around_s = _AROUND * (shade.end_s - shade.start_s)
        start_s, end_s = max(0.0, shade.start_s - around_s), shade.end_s + 2 * around_s
        yield (
            f'<button type="button" data-from="{start_s:.6g}" data-until="{end_s:.6g}">Zoom to '
            f"{_text(shade.label)}</button>"
        )
    yield "</div>"
    yield (
        '<p class="faint">Drag in a chart to zoom, double-click to see all again; a click on a name in a legend '
        "hides its line. Injected windows are shaded.</p>"
    )


def _outcomes(report: Report) -> Iterable[str]:
    rows = tuple(
        (
            one.name,
            str(one.count),
            f"{one.count / report.planned:.2%}" if report.planned else "-",
            one.counts_against,
            format_duration(one.duration.mean) if isinstance(one.duration, Distribution) else "-",
            " | ".join(one.examples) or "-",
        )
        for one in report.outcomes
    )
    heads = ("outcome", "count", "of planned", "counts against", "mean time", "for example")
    yield from _table(Table(heads, rows), "Outcomes", text_from=5)


def _limits(report: Report) -> Iterable[str]:
    kept = {True: "kept", False: "BROKEN", None: "no value"}
    rows = tuple(
        (
            one.limit.text,
            one.window,
            words.in_unit(one.value, BY_NAME[one.limit.metric].unit),
            kept[one.kept],
        )
        for one in report.limits
    )
    yield from _table(Table(("limit", "window", "value", "verdict"), rows), "Limits")


def _sending(report: Report) -> Iterable[str]:
    yield f"<p>{_text(words.lateness(report))}</p>"
    if isinstance(report.receipt, Distribution):
        yield f"<p>{_text(words.receipt(report.receipt))}</p>"
    workers = (report.facts.get("generator") or {}).get("workers") or []
    rows = tuple(
        (
            str(one["worker"]),
            f"{one['cpu_s'] / one['wall_s']:.0%}" if one["wall_s"] else "-",
            "-" if one["loop_lag_p99_s"] is None else format_duration(one["loop_lag_p99_s"]),
        )
        for one in workers
    )
    if rows:
        yield from _table(Table(("worker", "of a core", "loop lag p99"), rows), "Sending processes")
        yield f'<p class="faint">Loop lag over {format_duration(MAX_LOOP_LAG_S)} makes a run invalid.</p>'


def _notes(report: Report) -> Iterable[str]:
    yield "<ul>"
    for warning in report.warnings:
        yield f"<li>{_text(warning)}</li>"
    if isinstance(report.stages, Missing):
        yield f"<li>no breakdown of the time: {_text(report.stages.reason)}</li>"
    yield "</ul>"


def _facts(report: Report) -> Iterable[str]:
    facts = report.facts
    rows: list[tuple[str, str]] = [
        ("command", " ".join(str(word) for word in facts.get("command") or ())),
        ("started (UTC)", str(facts.get("started_utc"))),
        ("schedule", str(facts.get("schedule_hash"))),
        ("seed", str(facts.get("seed"))),
    ]
    rows += [
        (name, json.dumps(facts[name], ensure_ascii=False, sort_keys=True))
        for name in ("trace", "target", "shape", "versions", "host")
        if facts.get(name)
    ]
    yield from _table(Table(("what", "value"), tuple(rows)), "What was run", text_from=1)


def _section(title: str, lines: Iterable[str]) -> Iterable[str]:
    yield f"<section><h2>{_text(title)}</h2>"
    yield from lines
    yield "</section>"


def _state(kind: str, strong: str, text: str) -> str:
    return f'<p class="state {kind}"><strong>{_text(strong)}</strong>: {_text(text)}</p>'


def _table(table: Table, label: str, text_from: int = 99) -> Iterable[str]:
    """text_from: columns from this one on hold prose."""

    def cell(kind: str, place: int, text: str, scope: str) -> str:
        prose = ' class="text"' if place >= text_from else ""
        return f"<{kind}{scope}{prose}>{_text(text)}</{kind}>"

    # A wide table scrolls by itself, also by keyboard.
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(label)}"><table><thead><tr>'
    yield "".join(cell("th", place, head, ' scope="col"') for place, head in enumerate(table.heads))
    yield "</tr></thead><tbody>"
    for row in table.rows:
        cells = [
            cell("th", 0, row[0], ' scope="row"'),
            *(cell("td", i, text, "") for i, text in enumerate(row[1:], 1)),
        ]
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _text(text: str) -> str:
    """Text, whoever wrote it, as text: no markup, nothing that turns the direction of writing."""
    return escape(words.plain(text))


def _json(figures: Sequence[dict[str, Any]]) -> str:
    return json.dumps(figures, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _asset(name: str) -> str:
    return resources.files("loadgen.report").joinpath(name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"


def _library() -> str:
    try:
        from plotly.offline import get_plotlyjs  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise UsageError("--html needs the package plotly", hint="pip install 'loadgen[html]'") from exc
    return str(get_plotlyjs())
