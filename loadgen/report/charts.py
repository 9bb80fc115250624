"""Charts of a run: which there are, and what each says in words and in a table."""

from __future__ import annotations

from collections.abc import Sequence

from loadgen.durations import format_duration
from loadgen.report import axes
from loadgen.report.chart import Chart, HeatChart, Line, LineChart, Panel, PartsChart, Shade, Table
from loadgen.report.curves import ByLength, Curves, Ecdf
from loadgen.report.figures import Distribution
from loadgen.report.measures import OVERALL
from loadgen.report.production import Production
from loadgen.report.recovery import is_injection
from loadgen.report.report import Report
from loadgen.report.stages import Stages
from loadgen.report.timeline import Series

# Windows with a curve of their own; the others are in the table.
_MAX_CURVES = 8

# Panel, unit, (series, name in the legend).
_PANELS: tuple[tuple[str, str, tuple[tuple[str, str], ...]], ...] = (
    ("Load", "req/s", (("offered", "offered"), ("served", "served"), ("failed", "failed"))),
    (
        "In flight and queue",
        "requests",
        (
            ("in_flight", "in flight"),
            ("server_running", "running"),
            ("server_waiting", "waiting"),
        ),
    ),
    ("Batch size", "rows", (("batch", "mean batch"),)),
    ("Queue share", "%", (("queue_share", "of server time spent waiting"),)),
    ("Tokens", "tokens/s", (("tokens", "output tokens"),)),
    (
        "Latency and TTFT",
        "s",
        (("latency_p50", "latency p50"), ("latency_p99", "latency p99"), ("ttft_p50", "TTFT p50")),
    ),
    (
        "Device",
        "%",
        (
            ("gpu_active", "GPU: any kernel ran"),
            ("gpu_sm_active", "GPU: SMs active"),
            ("engine_active", "server in steps"),
            ("engine_kernel", "computing"),
            ("kv_cache", "KV cache"),
            ("host_cpu", "sender CPU"),
        ),
    ),
    ("GPU power", "W", (("gpu_power_w", "power"),)),
)


def charts_of(report: Report, curves: Curves, production: Production | None = None) -> list[Chart]:
    """In the order of the page; a chart without anything to show is left out."""
    shaded = shades_of(report)
    found: list[Chart | None] = [
        _timeline(report, shaded),
        _ecdf(report, curves),
        _heat(report, curves, shaded),
        _stages(report),
        *(_by_length(one) for one in curves.by_length),
        _failures(report, curves, shaded),
        _lateness(report, curves, shaded),
        None if production is None else _production(report, curves, production),
    ]
    return [chart for chart in found if chart is not None]


def shades_of(report: Report) -> tuple[Shade, ...]:
    """Every injected window that the run came to, in order of time."""
    return tuple(
        Shade(measures.label, start_s, end_s)
        for measures in report.measured
        if is_injection(measures.label)
        for start_s, end_s in measures.spans
    )


def _timeline(report: Report, shaded: tuple[Shade, ...]) -> Chart:
    line = report.timeline
    middles = tuple((place + 0.5) * line.bin_s for place in range(len(line.labels)))
    panels: list[Panel] = []
    shown: list[tuple[str, str, Series]] = []
    for title, unit, names in _PANELS:
        series = [(name, line.series[key]) for key, name in names if _has_values(line.series.get(key))]
        if not series:
            continue
        factor, unit_shown = axes.scale(unit, [values for _, values in series])
        lines = tuple(Line(name, middles, axes.times(values, factor)) for name, values in series)
        panels.append(Panel(title, unit_shown, lines, is_log=unit == "s" and axes.is_wide(lines)))
        shown += [(name, unit, values) for name, values in series]
    groups = axes.groups(len(line.labels))
    heads = ("from", "window", *(_head(name, unit) for name, unit, _ in shown))
    rows = [
        (
            format_duration(start * line.bin_s),
            _injected_or_first(line.labels[start:end]),
            *(axes.shown(axes.highest(values[start:end]), unit) for _, unit, values in shown),
        )
        for start, end in groups
    ]
    where = "".join(
        f" {shade.label} from {format_duration(shade.start_s)} to {format_duration(shade.end_s)}."
        for shade in shaded[:_MAX_CURVES]
    )
    highest = "; ".join(
        f"{name} at most {axes.shown(axes.highest(values), unit)}{'' if unit in ('s', '%') else ' ' + unit}"
        for name, unit, values in shown
        if axes.highest(values) is not None
    )
    return LineChart(
        "timeline",
        "Over time",
        f"What was offered, what waited and what came back, {len(line.labels)} bins of "
        f"{format_duration(line.bin_s)}. {highest}.{where} The table has the highest value within each row's time.",
        Table(heads, tuple(rows)),
        "seconds from the start",
        tuple(panels),
        is_time=True,
        shaded=shaded,
    )


def _ecdf(report: Report, curves: Curves) -> Chart | None:
    if not curves.latency:
        return None
    shown = _of_interest(report, curves.latency)
    factor, unit = axes.scale("s", [shown[0].values_s])
    lines = tuple(_curve(one, factor) for one in shown)
    rows = [
        (measures.label, str(latency.count), *(format_duration(value) for value in _ranks(latency)))
        for measures in report.measured
        if (latency := measures.distribution("latency")) is not None
    ]
    parts = [f"{row[0]}: half within {row[2]}, 99 % within {row[5]}" for row in rows[:_MAX_CURVES]]
    return LineChart(
        "latency-ecdf",
        "Latency: share of answers within a time",
        f"Cumulative shares of latency from the planned send, of successes. {'; '.join(parts)}.",
        Table(("window", "answers", "p50", "p90", "p95", "p99", "max"), tuple(rows)),
        f"latency ({unit})",
        (Panel("share of answers", "%", lines),),
        x_is_log=axes.ratio(shown[0].values_s) > axes.WIDE,
    )


def _curve(one: Ecdf, factor: float, name: str | None = None) -> Line:
    return Line(
        f"{name or one.label} ({one.count})",
        # None of the answers is below the least: the curve rises from 0.
        (one.values_s[0] * factor, *(value * factor for value in one.values_s)),
        (0.0, *(share * 100 for share in one.shares)),
        mark="step",
    )


def _of_interest(report: Report, found: Sequence[Ecdf]) -> list[Ecdf]:
    """Overall, baseline, and injections with their recoveries as far as a reader can tell lines apart."""
    by_worst = sorted(report.injected, key=lambda one: -(one.times_baseline or 0.0))
    ranked = [OVERALL, "baseline"]
    for one in by_worst:
        ranked += [one.label, f"recovery-{one.label.rpartition('-')[2]}"]
    kept = set(ranked[:_MAX_CURVES])
    return [one for one in found if one.label in kept]


def _heat(report: Report, curves: Curves, shaded: tuple[Shade, ...]) -> Chart | None:
    if curves.heat is None:
        return None
    line = report.timeline
    rows = [
        (
            format_duration(start * line.bin_s),
            axes.shown(axes.highest(line.series["latency_p50"][start:end]), "s"),
            axes.shown(axes.highest(line.series["latency_p99"][start:end]), "s"),
        )
        for start, end in axes.groups(len(line.labels))
    ]
    low, high = curves.heat.latency_edges_s[0], curves.heat.latency_edges_s[-1]
    return HeatChart(
        "latency-heat",
        "Latency over time",
        "How many answers took how long, by the moment they were planned; from "
        f"{format_duration(low)} to {format_duration(high)}. A second band is a second kind of answer; a rising "
        "edge is a queue that grows.",
        Table(("from", "latency p50", "latency p99"), tuple(rows)),
        curves.heat,
        shaded,
    )


def _stages(report: Report) -> Chart | None:
    found = report.stages
    if not isinstance(found, Stages):
        return None
    factor, unit = axes.scale("s", [(found.latency.mean,)])
    total = sum(spans.mean for _, spans in found.parts)
    rows = [
        (
            name,
            format_duration(spans.mean),
            f"{spans.mean / found.latency.mean:.1%}",
            *(format_duration(value) for value in (spans.p50, spans.p99)),
        )
        for name, spans in [*found.parts, ("= latency", found.latency)]
    ]
    largest = sorted(found.parts, key=lambda part: -part[1].mean)[:3]
    words = ", ".join(f"{name} {spans.mean / found.latency.mean:.0%}" for name, spans in largest)
    rest = dict(found.parts)["network and client"]
    return PartsChart(
        "stages",
        "Where the time went",
        f"Mean latency {format_duration(found.latency.mean)} of {found.latency.count} answers in parts that add up "
        f"to {format_duration(total)}; the largest: {words}. What no stamp explains is the last part, network and "
        f"client: {format_duration(rest.mean)} in the mean, {format_duration(rest.p99)} at p99.",
        Table(("part", "mean", "share", "p50", "p99"), tuple(rows)),
        unit,
        tuple((name, spans.mean * factor) for name, spans in found.parts),
    )


def _by_length(found: ByLength) -> Chart:
    factor, unit = axes.scale("s", [tuple(group.p99_s for group in found.groups)])
    words = "TTFT" if found.metric == "service_ttft" else "latency"
    middles = tuple((group.least + group.most) / 2 for group in found.groups)
    lines = (
        Line(
            f"some answers ({len(found.dots)})",
            tuple(length for length, _ in found.dots),
            tuple(value * factor for _, value in found.dots),
            mark="dots",
        ),
        Line("p50", middles, tuple(group.p50_s * factor for group in found.groups)),
        Line("p99", middles, tuple(group.p99_s * factor for group in found.groups)),
    )
    rows = [
        (
            f"{group.least:g} to {group.most:g}",
            str(group.count),
            format_duration(group.p50_s),
            format_duration(group.p99_s),
        )
        for group in found.groups
    ]
    first, last = found.groups[0], found.groups[-1]
    return LineChart(
        f"{'ttft' if found.metric == 'service_ttft' else 'latency'}-by-{found.tokens}-length",
        f"{words[0].upper()}{words[1:]} from the send, by {found.tokens} length",
        f"Half of the answers of {first.least:g} to {first.most:g} {found.tokens} tokens had a {words} within "
        f"{format_duration(first.p50_s)}, of {last.least:g} to {last.most:g} within {format_duration(last.p50_s)}.",
        Table((f"{found.tokens} tokens", "answers", "p50", "p99"), tuple(rows)),
        f"{found.tokens} tokens",
        (Panel(f"{words} from the send", unit, lines, is_log=axes.is_wide(lines)),),
        x_is_log=axes.ratio([value for value in middles if value > 0] or [1.0]) > axes.WIDE,
    )


def _failures(report: Report, curves: Curves, shaded: tuple[Shade, ...]) -> Chart | None:
    if not curves.failures:
        return None
    num_bins = len(report.timeline.labels)
    middles = tuple((place + 0.5) * curves.bin_s for place in range(num_bins))
    lines = tuple(
        Line(name, middles, tuple(float(count) for count in counts), mark="bars")
        for name, counts in curves.failures.items()
    )
    groups = axes.groups(num_bins)
    rows = [
        (
            format_duration(start * curves.bin_s),
            *(str(sum(counts[start:end])) for counts in curves.failures.values()),
        )
        for start, end in groups
        if any(sum(counts[start:end]) for counts in curves.failures.values())
    ]
    totals = ", ".join(f"{sum(counts)} {name}" for name, counts in curves.failures.items())
    return LineChart(
        "failures",
        "Failures over time, by cause",
        f"When requests failed: {totals}. Rows of the table without a failure are left out.",
        Table(("from", *curves.failures), tuple(rows)),
        "seconds from the start",
        (Panel("failures", "requests", lines),),
        is_time=True,
        shaded=shaded,
    )


def _lateness(report: Report, curves: Curves, shaded: tuple[Shade, ...]) -> Chart | None:
    late = report.measured[0].distribution("lateness")
    if late is None:
        return None
    factor, unit = axes.scale("s", [curves.lateness_p99])
    middles = tuple((place + 0.5) * curves.bin_s for place in range(len(curves.lateness_p99)))
    named = (("p50", curves.lateness_p50), ("p99", curves.lateness_p99))
    lines = tuple(Line(name, middles, axes.times(values, factor)) for name, values in named)
    rows = [
        (
            format_duration(start * curves.bin_s),
            *(axes.shown(axes.highest(values[start:end]), "s") for _, values in named),
        )
        for start, end in axes.groups(len(middles))
    ]
    return LineChart(
        "lateness",
        "How late requests left",
        f"First byte sent minus planned send: half within {format_duration(late.p50)}, 99 % within "
        f"{format_duration(late.p99)}, at most {format_duration(late.max)}; the limit for our own part is "
        f"{format_duration(report.validity.limit_s)} at p99.",
        Table(("from", "p50", "p99"), tuple(rows)),
        "seconds from the start",
        (Panel("lateness", unit, lines, is_log=axes.is_wide(lines)),),
        is_time=True,
        shaded=shaded,
    )


def _production(report: Report, curves: Curves, production: Production) -> Chart | None:
    if not curves.latency:
        return None
    replayed = curves.latency[0]
    factor, unit = axes.scale("s", [production.curve.values_s, replayed.values_s])
    latency = report.measured[0].distribution("latency")
    assert latency is not None
    rows = tuple(
        (name, str(one.count), *(format_duration(value) for value in _ranks(one)))
        for name, one in (("production", production.duration), ("replayed", latency))
    )
    return LineChart(
        "production",
        "Latency in production and in the replay",
        f"Production's own times as the trace has them, p50 {rows[0][2]}, p99 {rows[0][5]}; replayed, from the "
        f"planned send, p50 {rows[1][2]}, p99 {rows[1][5]}.",
        Table(("where", "answers", "p50", "p90", "p95", "p99", "max"), rows),
        f"latency ({unit})",
        (
            Panel(
                "share of answers",
                "%",
                (_curve(production.curve, factor, "production"), _curve(replayed, factor, "replayed")),
            ),
        ),
        x_is_log=True,
    )


def _ranks(spans: Distribution) -> tuple[float, ...]:
    return (spans.p50, spans.p90, spans.p95, spans.p99, spans.max)


def _has_values(values: Series | None) -> bool:
    return values is not None and any(value is not None for value in values)


def _injected_or_first(labels: Sequence[str]) -> str:
    return next((label for label in labels if is_injection(label)), labels[0])


def _head(name: str, unit: str) -> str:
    return name if unit in ("s", "%") else f"{name} ({unit})"
