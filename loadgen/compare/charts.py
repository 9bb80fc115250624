"""Charts of a comparison: which there are, and what each says in words and in a table."""

from __future__ import annotations

import math

from loadgen.compare import words
from loadgen.compare.cell import DECIDING
from loadgen.compare.comparison import SHARE_MARGIN, CellResult, Comparison
from loadgen.compare.overlay import Overlay
from loadgen.compare.verdict import Verdict
from loadgen.durations import format_duration
from loadgen.report import axes
from loadgen.report.chart import Chart, IntervalsChart, Line, LineChart, Panel, Span, Table
from loadgen.report.curves import Ecdf
from loadgen.report.measures import OVERALL
from loadgen.report.timeline import Series

_KINDS = (Verdict.SAME, Verdict.INCONCLUSIVE, Verdict.BETTER, Verdict.WORSE)
_SIDES = ("base", "candidate")
# Figures whose pairs are drawn; more lines are not told apart.
_MAX_LINES = 4


def charts_of(comparison: Comparison, seen: Overlay) -> list[Chart]:
    """In the order of the page; a chart without anything to show is left out."""
    found = [
        _intervals(comparison, is_ratio=True),
        _intervals(comparison, is_ratio=False),
        _pairs(comparison),
        _runs(comparison),
        _time_lines(seen),
        _ecdf(seen, "latency"),
        _ecdf(seen, "ttft"),
    ]
    return [chart for chart in found if chart is not None]


def _intervals(comparison: Comparison, *, is_ratio: bool) -> Chart | None:
    """The figures that decide by default, overall and in each window."""
    results = [
        one
        for one in comparison.results
        if one.cell.is_ratio == is_ratio
        and not math.isnan(one.judged.change)
        and (one.decides or (one.cell.metric, one.cell.statistic) in DECIDING)
        # Failures that nobody had are no news.
        and (is_ratio or any(value for side in one.runs for value in side if not math.isnan(value)))
    ]
    if not results:
        return None
    unit = "%" if is_ratio else "points"
    margin = comparison.terms.margin if is_ratio else SHARE_MARGIN
    windows = len({one.cell.window for one in results} - {OVERALL})
    differ = [one for one in results if one.verdict in (Verdict.BETTER, Verdict.WORSE)]
    named = "; ".join(
        f"{one.cell.text} {words.interval(one)} {words.SHORT[one.verdict]}" for one in differ[:6]
    )
    return IntervalsChart(
        "change-by-window" if is_ratio else "share-change-by-window",
        f"Change of {'times' if is_ratio else 'shares'}, overall{' and by window' if windows else ''}",
        f"Change of the candidate against the base with its interval, in {unit}; a line that crosses 0 shows no "
        f"change that is sure, and one that leaves the chart goes on. Shaded: the margin of {margin * 100:.3g} "
        f"{unit}. {named or 'No interval excludes 0'}.",
        Table(
            ("figure", "base", "candidate", "change", "interval", "verdict"),
            tuple(words.row(one) for one in results),
        ),
        unit,
        tuple(_span(one) for one in results),
        tuple(words.SHORT[kind] for kind in _KINDS),
        margin * 100,
    )


def _span(one: CellResult) -> Span:
    low, middle, high = (
        _percent(one, value) for value in (one.judged.low, one.judged.change, one.judged.high)
    )
    return Span(one.cell.text, words.SHORT[one.verdict], low, middle or 0.0, high)


def _pairs(comparison: Comparison) -> Chart | None:
    """The change within each pair."""
    results = [one for one in comparison.deciding if one.cell.is_ratio and len(one.changes) > 1]
    if not results:
        return None
    numbers = tuple(float(number + 1) for number in range(len(results[0].changes)))
    lines = tuple(
        Line(one.cell.text, numbers, tuple(_percent(one, value) for value in one.changes))
        for one in results[:_MAX_LINES]
    )
    rows = [
        (str(place + 1), *(words.change(one, one.changes[place]) for one in results))
        for place in range(len(numbers))
    ]
    grew = "; ".join(
        f"{one.cell.text} grew in {sum(value > 0 for value in one.changes)} of {len(numbers)} pairs"
        for one in results[:_MAX_LINES]
    )
    return LineChart(
        "pairs",
        "Change within each pair",
        f"How much the candidate's run differed from the base's, pair by pair. {grew}.",
        Table(("pair", *(one.cell.text for one in results)), tuple(rows)),
        "pair",
        (Panel("change within the pair", "%", lines),),
    )


def _runs(comparison: Comparison) -> Chart | None:
    """What each run measured: drift and odd runs are seen here."""
    results = [
        one
        for one in comparison.deciding
        if one.cell.of.unit == "s" and any(not math.isnan(value) for side in one.runs for value in side)
    ]
    if not results or len(comparison.base) + len(comparison.candidate) < 3:
        return None
    panels, heads, columns = [], ["run"], []
    for one in results[:_MAX_LINES]:
        sides = [[_known(value) for value in side] for side in one.runs]
        factor, unit = axes.scale("s", sides)
        lines = tuple(
            Line(name, tuple(float(place + 1) for place in range(len(side))), axes.times(side, factor))
            for name, side in zip(_SIDES, sides, strict=True)
        )
        panels.append(Panel(one.cell.text, unit, lines))
        heads += [f"{one.cell.text} {name}" for name in _SIDES]
        columns += sides
    rows = [
        (str(place + 1), *(axes.shown(side[place] if place < len(side) else None, "s") for side in columns))
        for place in range(max(len(side) for side in columns))
    ]
    paired = "a pair has one number" if comparison.pairing == "paired" else "the sides are not paired"
    return LineChart(
        "runs",
        "Run by run",
        f"What each run measured, in order of time; {paired}. Lines that rise and fall together are drift, which "
        "pairs take out.",
        Table(tuple(heads), tuple(rows)),
        "run of the side",
        tuple(panels),
    )


def _time_lines(seen: Overlay) -> Chart | None:
    named: list[tuple[str, str, tuple[Series, Series]]] = [
        ("Latency p50", "s", (seen.base.latency_p50, seen.candidate.latency_p50)),
        ("Latency p99", "s", (seen.base.latency_p99, seen.candidate.latency_p99)),
        ("TTFT p50", "s", (seen.base.ttft_p50, seen.candidate.ttft_p50)),
        ("Failures of a run", "requests", (seen.base.failed, seen.candidate.failed)),
    ]
    named = [one for one in named if any(value for side in one[2] for value in side)]
    if not named:
        return None
    count = len(seen.base.failed)
    middles = tuple((place + 0.5) * seen.bin_s for place in range(count))
    panels = []
    for title, unit, sides in named:
        factor, unit_shown = axes.scale(unit, sides)
        lines = tuple(
            Line(name, middles, axes.times(side, factor)) for name, side in zip(_SIDES, sides, strict=True)
        )
        panels.append(Panel(title, unit_shown, lines, is_log=unit == "s" and axes.is_wide(lines)))
    rows = [
        (
            format_duration(start * seen.bin_s),
            *(axes.shown(axes.highest(side[start:end]), unit) for _, unit, sides in named for side in sides),
        )
        for start, end in axes.groups(count)
    ]
    return LineChart(
        "time-lines",
        "Over time, both sides",
        f"By the planned moment, in bins of {format_duration(seen.bin_s)}, over {seen.base.runs} runs of the base "
        f"and {seen.candidate.runs} of the candidate; each side's own successes. The table has the highest value "
        "within each row's time.",
        Table(("from", *(f"{title} {name}" for title, _, _ in named for name in _SIDES)), tuple(rows)),
        "seconds from the start",
        tuple(panels),
        is_time=True,
        shaded=seen.shaded,
    )


def _ecdf(seen: Overlay, metric: str) -> Chart | None:
    """Shares are of what was planned: a side that fails does not reach 100 %."""
    sides = [
        (name, side.planned, curve)
        for name, side in zip(_SIDES, (seen.base, seen.candidate), strict=True)
        if (curve := side.latency if metric == "latency" else side.ttft) is not None
    ]
    if not sides:
        return None
    factor, unit = axes.scale("s", [curve.values_s for _, _, curve in sides])
    shown = "TTFT" if metric == "ttft" else "latency"
    lines = tuple(_curve(name, planned, curve, factor) for name, planned, curve in sides)
    rows = tuple(
        (
            name,
            str(planned),
            str(curve.count),
            *(format_duration(value) for value in _ranks(curve)),
        )
        for name, planned, curve in sides
    )
    parts = [
        f"{name}: {'all' if curve.count == planned else curve.count} of {planned} answered"
        for name, planned, curve in sides
    ]
    return LineChart(
        f"{metric}-ecdf",
        f"{shown[0].upper()}{shown[1:]}: share of requests answered within a time",
        f"Cumulative, from the planned send, over all that were planned: who fails requests does not reach 100 %. "
        f"{'; '.join(parts)}.",
        Table(("side", "planned", "answered", "p50", "p90", "p99", "max"), rows),
        f"{shown} ({unit})",
        (Panel("share of planned requests", "%", lines),),
        x_is_log=axes.ratio([value for _, _, curve in sides for value in curve.values_s]) > axes.WIDE,
    )


def _curve(name: str, planned: int, curve: Ecdf, factor: float) -> Line:
    share = 100 * curve.count / planned
    return Line(
        f"{name} ({curve.count})",
        # None of the answers is below the least: the curve rises from 0.
        (curve.values_s[0] * factor, *(value * factor for value in curve.values_s)),
        (0.0, *(one * share for one in curve.shares)),
        mark="step",
    )


def _ranks(curve: Ecdf) -> list[float]:
    """p50, p90, p99, max of the answered, as the curve has them: by nearest rank, up to its points."""
    return [
        next(
            value for value, share in zip(curve.values_s, curve.shares, strict=True) if share >= rank - 1e-12
        )
        for rank in (0.5, 0.9, 0.99, 1.0)
    ]


def _percent(one: CellResult, value: float) -> float | None:
    change = one.as_change(value)
    return None if change is None else change * 100


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
