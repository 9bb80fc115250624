"""A report on a terminal, in a pipe, at 80 columns, without colour: the answer first, then its reasons."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from loadgen.durations import format_duration
from loadgen.report import words
from loadgen.report.clock_offset import ClockOffset
from loadgen.report.figures import Distribution, Missing
from loadgen.report.metric import BY_NAME
from loadgen.report.report import Report
from loadgen.report.sampled import FIGURES
from loadgen.report.stages import Stages

_ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("latency", ("mean", "p50", "p99", "max")),
    ("service_latency", ("p99",)),
    ("ttft", ("p50", "p99")),
    ("tpot", ("p50", "p99")),
    ("lateness", ("p99",)),
)
_VALUES = (
    "offered_rate", "served_rate", "goodput", "output_token_rate", "error_rate", "rejected_share", "queue_share",
)  # fmt: skip
_VALUES_LAST = ("client_wait", "release_share", "mean_batch", "recovery_s")
_KEPT = {True: "kept", False: "BROKEN", None: "no value"}
_TIME_CHARS = 48
_BARS, _ASCII_BARS = " ▁▂▃▄▅▆▇█", " .:-=+*%#"
# Columns that fit beside the row names at 80 characters.
_MAX_COLUMNS = 5
# About three lines of a narrow terminal; report.json has the whole text.
_EXAMPLE_CHARS = 200


def render(report: Report, console: Console) -> None:
    """Print `report`; only ASCII where the console's encoding has no more."""
    narrow = not console.encoding.lower().startswith("utf")
    _headline(report, console)
    _metrics(report, console)
    _time_line(report, console, _ASCII_BARS if narrow else _BARS)
    _outcomes(report, console)
    if isinstance(report.stages, Stages):
        _stages(report.stages, console)
    _sending(report, console)
    if report.limits:
        _limits(report, console)
    _why(report, console)
    _notes(report, console)


def _headline(report: Report, console: Console) -> None:
    console.print(_text(words.title(report), style="bold"))
    console.print(_text(words.what(report)), soft_wrap=True)
    console.print(Text(words.counts(report)))
    if (warmup := words.warmup(report)) is not None:
        console.print(_text(warmup))
    if (held_least := words.held_least(report)) is not None:
        held = {True: "yes", False: "NO", None: "cannot be told"}[held_least.has_held]
        console.print(
            Text(f"held in {held_least.label}: {held} ({held_least.words}; {held_least.recovery_words})")
        )
    for judged in words.broken_limits(report):
        value = words.in_unit(judged.value, BY_NAME[judged.limit.metric].unit)
        console.print(Text(f"limit {judged.limit.text}: BROKEN ({value})", style="bold red"))
    for verdict in report.diagnosis:
        console.print(Text(f"  -> {verdict.name}", style="bold"))
    console.print()


def _metrics(report: Report, console: Console) -> None:
    """One column a window; further injections, when there are many, are in report.json."""
    occupied = [one for one in report.measured if one.requests or one.label == "overall"]
    shown = words.most_telling(report, occupied, _MAX_COLUMNS)
    left_out = len(occupied) - len(shown)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("")
    for measures in shown:
        table.add_column(measures.label, justify="right")
    table.add_row("requests", *(str(measures.requests) for measures in shown))
    table.add_row("seconds", *(f"{measures.duration_s:.1f}" for measures in shown))
    for name in _VALUES if report.bounds else (name for name in _VALUES if name != "goodput"):
        table.add_row(words.named(name, None), *(words.cell(one, name, None) for one in shown))
    for name, statistics in _ROWS:
        for statistic in statistics:
            table.add_row(words.named(name, statistic), *(words.cell(one, name, statistic) for one in shown))
    for name in _VALUES_LAST:
        table.add_row(words.named(name, None), *(words.cell(one, name, None) for one in shown))
    for name in FIGURES:
        if any(one.value(name) is not None for one in shown):
            table.add_row(words.named(name, None), *(words.cell(one, name, None) for one in shown))
    console.print(table)
    if left_out > 0:
        console.print(Text(f"{left_out} more windows are in report.json"))
    console.print(
        Text("latency, ttft: from the planned send, of successes; percentiles by nearest rank"),
        style="dim",
    )
    if report.bounds:
        bounds = ", ".join(
            f"{bound.metric} within {format_duration(bound.bound_s)}" for bound in report.bounds
        )
        console.print(Text(f"goodput: {bounds}"), style="dim")
    console.print()


def _text(foreign: str, style: str = "") -> Text:
    return Text(words.plain(foreign), style=style)


def _time_line(report: Report, console: Console, bars: str) -> None:
    line = report.timeline
    groups = _groups(len(line.labels))
    console.print(Text(f"over time (each mark {format_duration(line.bin_s * groups[0][1])}):", style="bold"))
    for name, caption, unit in (
        ("offered", "offered", "/s"),
        ("in_flight", "in flight", ""),
        ("latency_p99", "p99 latency", "s"),
        ("server_waiting", "queued", ""),
        ("failed", "failed", "/s"),
    ):
        series = line.series.get(name)
        values = [] if series is None else [_highest(series[start:end]) for start, end in _spans(groups)]
        known = [value for value in values if value is not None]
        if not known or max(known) == 0:
            continue
        highest = max(known)
        steps = len(bars) - 1
        marks = "".join(
            bars[0] if value is None else bars[max(0, min(steps, -int(-value * steps // highest)))]
            for value in values
        )
        top = format_duration(highest) if unit == "s" else f"{highest:.4g}{unit}"
        console.print(Text(f"  {caption:<12}{marks}  max {top}"))
    marks = "".join(
        "^" if any(label.startswith(("peak", "burst")) for label in line.labels[start:end]) else " "
        for start, end in _spans(groups)
    )
    if marks.strip():
        console.print(Text(f"  {'injected':<12}{marks}".rstrip()))
    console.print()


def _groups(count: int) -> list[tuple[int, int]]:
    """(start, bins) of each mark: equal runs of bins, at most 48 of them."""
    size = max(1, -(-count // _TIME_CHARS))
    return [(start, size) for start in range(0, count, size)]


def _spans(groups: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(start, start + size) for start, size in groups]


def _highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _outcomes(report: Report, console: Console) -> None:
    others = [outcome for outcome in report.outcomes if outcome.name != "ok"]
    if not others:
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("not ok", "count", "counts against", "mean time"):
        table.add_column(heading, justify="right" if heading in ("count", "mean time") else "left")
    for outcome in others:
        mean = format_duration(outcome.duration.mean) if isinstance(outcome.duration, Distribution) else "-"
        table.add_row(outcome.name, str(outcome.count), outcome.counts_against, mean)
    console.print(table)
    # Below it: a column of its own would break the messages, which are long, after two or three words.
    for outcome in others:
        for text in outcome.examples[:1]:
            shown = text if len(text) <= _EXAMPLE_CHARS else f"{text[: _EXAMPLE_CHARS - 3]}..."
            _indented(console, _text(f"{outcome.name}, for example: {shown}"), 2)
    console.print()


def _stages(found: Stages, console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in ("where the time went", "mean", "share", "p99"):
        table.add_column(heading, justify="left" if heading.startswith("where") else "right")
    for name, spans in [*found.parts, ("= latency", found.latency)]:
        table.add_row(
            name,
            format_duration(spans.mean),
            f"{spans.mean / found.latency.mean:.1%}",
            format_duration(spans.p99),
        )
    console.print(table)
    console.print()


def _sending(report: Report, console: Console) -> None:
    overall = report.measured[0]
    if overall.distribution("lateness") is None or overall.distribution("dispatch_lateness") is None:
        return
    console.print(Text(f"sending: {words.lateness(report)}"))
    if isinstance(report.receipt, Distribution):
        console.print(Text(words.receipt(report.receipt)))
    if isinstance(report.clock, ClockOffset):
        console.print(Text(words.clock(report.clock)))
    generator = report.facts.get("generator") or {}
    for worker in generator.get("workers") or ():
        console.print(Text(words.worker(worker)))
    for node in generator.get("nodes") or ():
        console.print(Text(words.node(node)))
    for reason in report.validity.reasons:
        console.print(Text(f"invalid: {reason}", style="bold red"))
    console.print()


def _limits(report: Report, console: Console) -> None:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    labels = [measures.label for measures in words.most_telling(report, report.measured, _MAX_COLUMNS)]
    table.add_column("limit")
    for label in labels:
        table.add_column(label, justify="right")
    for text in dict.fromkeys(verdict.limit.text for verdict in report.limits):
        of_limit = {
            verdict.window: _KEPT[verdict.kept] for verdict in report.limits if verdict.limit.text == text
        }
        table.add_row(text, *(of_limit.get(label, "-") for label in labels))
    console.print(table)
    console.print()


def _why(report: Report, console: Console) -> None:
    console.print(Text("why:", style="bold"))
    for verdict in report.diagnosis:
        _indented(console, Text(f"{verdict.name}: {verdict.evidence}"), 2)
        _indented(console, Text(f"next: {verdict.next_step}", style="dim"), 4)


def _notes(report: Report, console: Console) -> None:
    notes = list(report.warnings)
    if isinstance(report.stages, Missing):
        notes.append(f"no breakdown of the time: {report.stages.reason}")
    for note in notes:
        _indented(console, _text(f"note: {note}"), 2)


def _indented(console: Console, text: Text, spaces: int) -> None:
    console.print(Padding(text, (0, 0, 0, spaces), expand=False))
