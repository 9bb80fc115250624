"""A report as Markdown, for a comment under a merge request."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.report import words
from loadgen.report.measures import Measures
from loadgen.report.metric import BY_NAME
from loadgen.report.report import Report

_MAX_WINDOWS = 5
_ROWS: tuple[tuple[str, str | None], ...] = (
    ("offered_rate", None), ("served_rate", None), ("error_rate", None), ("goodput", None), ("latency", "p50"),
    ("latency", "p99"), ("ttft", "p50"), ("ttft", "p99"), ("tpot", "p50"), ("queue_share", None),
    ("recovery_s", None),
)  # fmt: skip
_KEPT = {True: "kept", False: "**broken**", None: "no value"}


def as_markdown(report: Report) -> str:
    """Whether it can be believed, whether it held, the main figures, limits, and why."""
    lines = [f"### loadgen: {_escaped(words.title(report))}", "", f"{_escaped(words.what(report))}.", ""]
    lines += [f"- {_escaped(words.counts(report))}"]
    lines += [f"- invalid: {_escaped(reason)}" for reason in report.validity.reasons]
    if (least := words.held_least(report)) is not None:
        held = {True: "held", False: "**did not hold**", None: "cannot be told"}[least.has_held]
        lines.append(
            f"- {_escaped(least.label)} {held}: {_escaped(f'{least.words}; {least.recovery_words}')}"
        )
    lines += ["", *_figures(report)]
    if report.limits:
        lines += ["", *_limits(report)]
    lines += ["", "**Why**", ""]
    for verdict in report.diagnosis:
        lines.append(f"- **{_escaped(verdict.name)}**: {_escaped(verdict.evidence)}. ")
        lines.append(f"  Next: {_escaped(verdict.next_step)}.")
    others = [one for one in report.outcomes if one.name != "ok" and one.examples]
    if others:
        lines += ["", "**Not ok**", ""]
        lines += [f"- {one.count} {one.name}: {_escaped(one.examples[0])}" for one in others]
    if report.warnings:
        lines += ["", *(f"- note: {_escaped(note)}" for note in report.warnings)]
    return "\n".join(lines) + "\n"


def _figures(report: Report) -> list[str]:
    occupied = [one for one in report.measured if one.requests or one.label == "overall"]
    shown = words.most_telling(report, occupied, _MAX_WINDOWS)
    rows = [("requests", *(str(one.requests) for one in shown))]
    rows += [
        (words.named(name, statistic), *(words.cell(one, name, statistic) for one in shown))
        for name, statistic in _ROWS
    ]
    return _table(("figure", *(one.label for one in shown)), [row for row in rows if set(row[1:]) != {"-"}])


def _limits(report: Report) -> list[str]:
    shown: Sequence[Measures] = words.most_telling(report, report.measured, _MAX_WINDOWS)
    labels = [one.label for one in shown]
    rows = []
    for text in dict.fromkeys(one.limit.text for one in report.limits):
        found = {one.window: one for one in report.limits if one.limit.text == text}
        cells = [
            "-"
            if one is None
            else f"{_KEPT[one.kept]} ({words.in_unit(one.value, BY_NAME[one.limit.metric].unit)})"
            for one in map(found.get, labels)
        ]
        rows.append((_escaped(text), *cells))
    return _table(("limit", *labels), rows)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = ["| " + " | ".join(map(_escaped, heads)) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _escaped(text: str) -> str:
    """Text of targets and traces cannot become markup, a mention or a link."""
    text = words.plain(" ".join(text.split()))
    for character in "\\`*_{}[]<>|#@~":
        text = text.replace(character, "\\" + character)
    # Without its colon and slashes an address is not linked.
    return text.replace("://", ":\\//")
