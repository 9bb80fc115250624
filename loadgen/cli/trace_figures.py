"""A trace's figures: as one line, as JSON, and as the tables of `trace info`."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from loadgen.cli import console
from loadgen.durations import format_duration
from loadgen.trace.statistics import LengthFigures, TraceStatistics, trace_statistics
from loadgen.trace.trace import Trace


def one_line(trace: Trace) -> str:
    """Requests, span, mean and peak rate, in one line."""
    figures = trace_statistics(trace)
    rate = "no rate" if figures.rate_per_s is None else f"{figures.rate_per_s:.4g} requests/s"
    return (
        f"{figures.rows} requests over {format_duration(figures.span_s)}, {rate}, "
        f"at most {figures.peak_1s_sliding} within 1 s"
    )


def describe(trace: Trace, path: Path) -> dict[str, Any]:
    """Figures and metadata as one JSON-ready document."""
    figures = asdict(trace_statistics(trace))
    short = {"minimum": "min", "maximum": "max"}
    lengths = {
        column: {short.get(name, name): value for name, value in of_column.items()}
        for column, of_column in figures.pop("lengths").items()
    }
    return {
        "trace": path.name,
        "trace_id": trace.trace_id,
        **figures,
        "lengths": lengths,
        "metadata": asdict(trace.metadata),
    }


def show_info(trace: Trace, path: Path, *, as_json: bool) -> None:
    if as_json:
        console.print_json(describe(trace, path))
        return
    figures = trace_statistics(trace)
    out = console.out()
    out.print(Text(f"{path}: {one_line(trace)}"))
    out.print()
    out.print(_facts(trace, figures))
    out.print(_lengths(figures.lengths))
    for warning in trace.metadata.warnings:
        out.print(Text(f"note: {warning}"))


def _facts(trace: Trace, figures: TraceStatistics) -> Table:
    metadata = trace.metadata
    facts = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")

    def add(name: str, value: str) -> None:
        facts.add_row(Text(name), Text(value))

    add(
        "peak, 1 s",
        f"{figures.peak_1s_fixed} counted from the first, {figures.peak_1s_sliding} in any window",
    )
    add("gap variation", f"{number(figures.gap_cv)} (standard deviation / mean; 1 = Poisson)")
    add("dispersion, 1 s", f"{number(figures.dispersion_1s)} (variance / mean of counts; 1 = Poisson)")
    add("ties", f"{figures.ties} requests at the very moment of the one before")
    add("first arrival", _moment(metadata.origin_unix_ns))
    add("arrival from", f"{metadata.arrival_from} (the stamp marks {metadata.stamp_marks})")
    if metadata.resolution_ns is not None:
        add("resolution", format_duration(metadata.resolution_ns / 1e9))
    if metadata.zone is not None:
        add("zone assumed", metadata.zone)
    if metadata.counts:
        add("counts", ", ".join(f"{name} {value}" for name, value in metadata.counts.items()))
    for source in metadata.sources:
        add("source", f"{source.name} ({source.bytes} bytes)")
    add("trace id", trace.trace_id)
    return facts


def _lengths(lengths: dict[str, LengthFigures]) -> Table:
    table = Table(title=None)
    table.add_column("length")
    for heading in ("min", "p50", "p90", "p99", "max", "mean", "missing"):
        table.add_column(heading, justify="right")
    for column, row in lengths.items():
        values = [str(value) for value in (row.minimum, row.p50, row.p90, row.p99, row.maximum)]
        table.add_row(column, *values, f"{row.mean:.1f}", f"{row.null_share:.1%}")
    return table


def number(value: float | None) -> str:
    """Four digits; `none` where there is none."""
    return "none" if value is None else f"{value:.4g}"


def _moment(unix_ns: int | None) -> str:
    if unix_ns is None:
        return "not known (relative times)"
    seconds, rest_ns = divmod(unix_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest_ns:09d} UTC"
