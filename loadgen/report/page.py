"""A report as one HTML page that needs nothing else: no server, no network, no file beside it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from loadgen.durations import format_duration
from loadgen.report import html, words
from loadgen.report.chart import Chart, LineChart, Table
from loadgen.report.clock_offset import ClockOffset
from loadgen.report.figures import Distribution, Missing
from loadgen.report.measures import Measures
from loadgen.report.metric import BY_NAME, METRICS
from loadgen.report.plotly_figures import figure_of
from loadgen.report.report import Report
from loadgen.report.validity import MAX_LOOP_LAG_S

# Columns of the table of metrics; of more windows, those of interest.
_MAX_WINDOWS = 12
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
_DELAYS = ("loop_lag_p99_s", "lateness_p99_s", "lateness_max_s")
_CONNECTIONS = ("num_connections", "most_connections")
_WORKER_HEADS = (
    "worker", "of a core", "loop lag p99", "lateness p99", "lateness max", "connections", "most at once",
)  # fmt: skip
_STATISTICS: tuple[str | None, ...] = ("mean", "p50", "p90", "p99", "max")
_HELD = {
    True: ("good", "held"),
    False: ("bad", "did not hold"),
    None: ("warn", "cannot be told"),
}


def as_page(report: Report, charts: Sequence[Chart]) -> str:
    """The page. Raises UsageError where the charting library is not installed."""
    figures = [figure_of(chart) for chart in charts]
    title = f"loadgen report: {report.facts.get('run_id')}"
    return html.page(title, _body(report, charts, figures), figures)


def _body(report: Report, charts: Sequence[Chart], figures: Sequence[dict[str, Any]]) -> Iterable[str]:
    yield from html.header(words.title(report))
    yield from _summary(report)
    yield html.UNDRAWN
    yield from html.section("Figures", _metrics(report))
    for place, (chart, figure) in enumerate(zip(charts, figures, strict=True)):
        zooms = html.zooms(chart.shaded) if place == 0 and isinstance(chart, LineChart) else ()
        yield from html.figure(chart, figure["height_px"], place, zooms)
    if len(report.outcomes) > 1:
        yield from html.section("How requests ended", _outcomes(report))
    if report.limits:
        yield from html.section("Limits", _limits(report))
    yield from html.section("Sending", _sending(report))
    if report.warnings or isinstance(report.stages, Missing):
        yield from html.section("Notes", _notes(report))
    yield from html.section("What was run", _facts(report))
    yield "</main>"


def _summary(report: Report) -> Iterable[str]:
    yield f'<p class="faint">{html.text(words.what(report))}</p>'
    if report.validity.is_valid:
        yield html.state("good", "Valid", f"sent as planned: {words.lateness(report)}")
    else:
        reasons = "; ".join(report.validity.reasons)
        yield html.state("bad", "INVALID: the generator was the limit", reasons)
    yield f"<p>{html.text(words.counts(report))}</p>"
    if (warmup := words.warmup(report)) is not None:
        yield f"<p>{html.text(warmup)}</p>"
    held_least = words.held_least(report)
    if held_least is not None:
        kind, held = _HELD[held_least.has_held]
        yield html.state(
            kind, f"{held_least.label} {held}", f"{held_least.words}; {held_least.recovery_words}"
        )
    for judged in words.broken_limits(report):
        value = words.in_unit(judged.value, BY_NAME[judged.limit.metric].unit)
        yield html.state("bad", f"limit {judged.limit.text} broken", value)
    yield '<h2>Why</h2><ul class="verdicts">'
    for verdict in report.diagnosis:
        kind = "good" if verdict.name == "healthy" else "warn"
        yield f'<li class="{kind}"><strong>{html.text(verdict.name)}</strong>: {html.text(verdict.evidence)}'
        yield f'<p class="next">Next: {html.text(verdict.next_step)}</p></li>'
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
    yield from html.table(Table(heads, tuple(row for row in first if _says(row))), "Main figures by window")
    if len(occupied) > len(shown):
        yield f'<p class="faint">{len(occupied) - len(shown)} more windows are in report.json.</p>'
    every = [
        _row(shown, metric.name, statistic)
        for metric in METRICS
        for statistic in (_STATISTICS if metric.per_request else (None,))
    ]
    yield "<details><summary>All figures</summary>"
    yield from html.table(Table(heads, tuple(row for row in every if _says(row))), "All figures by window")
    yield "</details><details><summary>What each figure counts</summary><div>"
    defined = tuple((metric.name, metric.definition_id, metric.definition) for metric in METRICS)
    yield from html.table(Table(("metric", "id", "definition"), defined), "Definitions", text_from=1)
    yield (
        "<p>Percentiles by nearest rank: each is a value that was observed. Latency and TTFT count from the "
        "planned send, of successes.</p></div></details>"
    )


def _row(shown: Sequence[Measures], name: str, statistic: str | None) -> tuple[str, ...]:
    return (words.named(name, statistic), *(words.cell(one, name, statistic) for one in shown))


def _says(row: Sequence[str]) -> bool:
    return any(cell != "-" for cell in row[1:])


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
    yield from html.table(Table(heads, rows), "Outcomes", text_from=5)


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
    yield from html.table(Table(("limit", "window", "value", "verdict"), rows), "Limits")


def _sending(report: Report) -> Iterable[str]:
    yield f"<p>{html.text(words.lateness(report))}</p>"
    if isinstance(report.receipt, Distribution):
        yield f"<p>{html.text(words.receipt(report.receipt))}</p>"
    if isinstance(report.clock, ClockOffset):
        yield f"<p>{html.text(words.clock(report.clock))}</p>"
    generator = report.facts.get("generator") or {}
    rows = tuple(
        (
            str(one["worker"]),
            f"{one['cpu_s'] / one['wall_s']:.0%}" if one["wall_s"] else "-",
            *("-" if one.get(name) is None else format_duration(one[name]) for name in _DELAYS),
            *("-" if one.get(name) is None else str(one[name]) for name in _CONNECTIONS),
        )
        for one in generator.get("workers") or ()
    )
    for node in generator.get("nodes") or ():
        yield f"<p>{html.text(words.node(node))}</p>"
    if rows:
        yield from html.table(
            Table(_WORKER_HEADS, rows),
            "Sending processes",
        )
        yield (
            f'<p class="faint">Loop lag over {format_duration(MAX_LOOP_LAG_S)} makes a run invalid; lateness is '
            "our own part of it.</p>"
        )


def _notes(report: Report) -> Iterable[str]:
    yield "<ul>"
    for warning in report.warnings:
        yield f"<li>{html.text(warning)}</li>"
    if isinstance(report.stages, Missing):
        yield f"<li>no breakdown of the time: {html.text(report.stages.reason)}</li>"
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
    yield from html.table(Table(("what", "value"), tuple(rows)), "What was run", text_from=1)
