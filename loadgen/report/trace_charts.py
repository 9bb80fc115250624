"""Charts of a trace: rate over time, gaps beside Poisson's, lengths; each with its words and its numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from loadgen.durations import format_duration
from loadgen.percentiles import nearest_rank
from loadgen.plan.summary import RateBins
from loadgen.report import axes
from loadgen.report.chart import Chart, Line, LineChart, Panel, Table
from loadgen.report.curves import ecdf
from loadgen.trace.gap_spread import GapSpread, poisson_at_least
from loadgen.trace.length_spread import drawn_columns, known_lengths
from loadgen.trace.trace import Trace

_RANKS = (0, 50, 90, 99, 100)
_RANK_HEADS = ("min", "p50", "p90", "p99", "max")
_POISSON_POINTS = 160


def charts_of_trace(trace: Trace, bins: RateBins | None, gaps: GapSpread | None) -> list[Chart]:
    """Those that `trace` has something to show in. bins, gaps: None where it has no span."""
    found: list[Chart] = []
    if bins is not None:
        found.append(_rate(bins))
    if gaps is not None:
        found.append(_gaps(trace, gaps))
    columns = drawn_columns(trace)
    units = [column.rpartition("_")[2] for column in columns]
    # Lengths of one unit share an axis.
    groups = [columns] if len(set(units)) == 1 else [[column] for column in columns]
    found += [_lengths(trace, group) for group in groups if group]
    return found


def _rate_words(bins: RateBins) -> str:
    """The highest mean and where it lies."""
    place = int(np.argmax(bins.counts))
    return (
        f"Requests per second, the mean of each {format_duration(bins.bin_s)}. The highest mean, "
        f"{bins.counts[place] / bins.bin_s:.4g}/s, begins {format_duration(place * bins.bin_s)} after the first "
        "request."
    )


def _rate(bins: RateBins) -> Chart:
    middles = tuple((place + 0.5) * bins.bin_s for place in range(len(bins.counts)))
    means = tuple(count / bins.bin_s for count in bins.counts)
    lines = [Line(f"mean of {format_duration(bins.bin_s)}", middles, means, mark="bars")]
    has_seconds = bins.bin_s > 1
    if has_seconds:
        highest = tuple(float(count) if count else None for count in bins.highest_1s)
        lines.append(Line("highest second that begins in it", middles, highest, mark="dots"))
    rows = tuple(
        (
            format_duration(start * bins.bin_s),
            str(sum(bins.counts[start:end])),
            f"{sum(bins.counts[start:end]) / ((end - start) * bins.bin_s):.4g}",
            str(max(bins.highest_1s[start:end])) if has_seconds else "-",
        )
        for start, end in axes.groups(len(bins.counts))
    )
    return LineChart(
        "rate",
        "Requests per second",
        _rate_words(bins),
        Table(("from", "requests", "mean /s", "highest second"), rows),
        "seconds from the first request",
        (Panel("Rate", "req/s", tuple(lines)),),
        is_time=True,
    )


def _gaps(trace: Trace, spread: GapSpread) -> Chart:
    gaps_ns = np.diff(trace.arrival_ns)
    above_ns = gaps_ns[gaps_ns > 0]
    shortest_ns, longest_ns = int(above_ns.min()), int(above_ns.max())
    factor, unit = (1e3, "ms") if longest_ns < 2e9 else (1.0, "s")
    recorded = _cumulative(f"recorded ({spread.gaps})", gaps_ns / 1e9 * factor)
    mean_ns = spread.mean_s * 1e9
    # Poisson's own gaps reach from a thousandth of the mean to ten times it.
    reach = (max(spread.step_ns, min(shortest_ns, mean_ns / 1e3)), max(longest_ns, mean_ns * 10))
    points = np.geomspace(*reach, _POISSON_POINTS)
    within = 1 - poisson_at_least(points.astype(np.int64) + 1, mean_ns, spread.step_ns)
    poisson = Line(
        "Poisson of the same mean rate",
        tuple((points / 1e9 * factor).tolist()),
        tuple((within * 100).tolist()),
    )
    rows = [("0 (ties)", f"{spread.tie_share:.1%}", f"{spread.poisson_tie_share:.1%}")]
    rows += [
        (
            f"{format_duration(one.from_s)} to "
            f"{'the longest' if one.until_s is None else format_duration(one.until_s)}",
            f"{one.share:.1%}",
            f"{one.poisson_share:.1%}",
        )
        for one in spread.bins
    ]
    stamped = f", stamped to {format_duration(spread.step_ns / 1e9)}" if spread.step_ns > 1 else ""
    return LineChart(
        "gaps",
        "Gaps between arrivals: share within a time",
        f"Cumulative shares of the gaps, beside a Poisson process of the same mean rate{stamped}. Mean "
        f"{format_duration(spread.mean_s)}, longest {format_duration(spread.longest_s)}; variation "
        f"{spread.cv:.3g} (Poisson {spread.poisson_cv:.3g}); ties {spread.tie_share:.1%} (Poisson "
        f"{spread.poisson_tie_share:.1%}). A line above Poisson's on the left is requests that come together.",
        Table(("gap", "recorded", "Poisson"), tuple(rows)),
        f"gap ({unit})",
        (Panel("share of gaps", "%", (recorded, poisson)),),
        x_is_log=True,
    )


def _lengths(trace: Trace, columns: Sequence[str]) -> Chart:
    lines, rows, parts = [], [], []
    for column in columns:
        lengths = known_lengths(trace, column)
        name, unknown = column.replace("_", " "), trace.num_rows - lengths.size
        lines.append(_cumulative(f"{name} ({lengths.size})", lengths))
        ranks = [f"{value:.0f}" for value in nearest_rank(lengths, _RANKS) if value is not None]
        rows.append((name, *ranks, f"{lengths.mean():.1f}", str(unknown)))
        parts.append(f"{name}: half at most {ranks[1]}, 99 % at most {ranks[3]}")
    unit = columns[0].rpartition("_")[2]
    side = " and ".join(column.partition("_")[0] for column in columns)
    return LineChart(
        f"{side.replace(' ', '-')}-lengths",
        f"Lengths, {side}: share within a number of {unit}",
        f"Cumulative shares of the requests whose length is known. {'; '.join(parts)}.",
        Table(("length", *_RANK_HEADS, "mean", "unknown"), tuple(rows)),
        f"length ({unit})",
        (Panel("share of requests", "%", tuple(lines)),),
        x_is_log=any(axes.ratio(line.x) > axes.WIDE for line in lines),
    )


def _cumulative(name: str, values: npt.NDArray[np.generic]) -> Line:
    """Shares of all values that do not exceed x. Values of 0 have no place on an axis of ratios: they are the
    height at which the line begins.
    """
    curve = ecdf(name, np.asarray(values, dtype=np.float64))
    points = [(x, share * 100) for x, share in zip(curve.values_s, curve.shares, strict=True) if x > 0]
    zeros = float(np.mean(values == 0)) * 100
    start = points[0][0] if points else 1.0
    return Line(name, (start, *(x for x, _ in points)), (zeros, *(share for _, share in points)), mark="step")
