"""`loadgen plan`: what a replay would send; sends nothing."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadgen.cli import console
from loadgen.cli import shape_options as options
from loadgen.cli.output_file import refuse_to_overwrite
from loadgen.cli.rate_plot import plot_lines, plot_width
from loadgen.durations import format_duration
from loadgen.plan.planner import plan as plan_schedule
from loadgen.plan.schedule import Schedule, write_schedule
from loadgen.plan.summary import ScheduleSummary, by_kind, rate_bins, summarise
from loadgen.trace.parquet import read_trace

_CURVE_BINS = 72  # of --json
_MANY_WINDOWS = 12  # beyond these, injections of one kind share a line; --json has each


@options.takes_shape(before="output")
def plan(
    trace: Annotated[Path, typer.Argument(help="A trace (Parquet, made by loadgen).", metavar="TRACE")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the schedule here (Parquet) as well.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUTPUT if it exists.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as JSON on standard output.")
    ] = False,
    **shaping: Any,
) -> None:
    """Show what a replay with the same options would send: counts, rates, windows, a curve. Sends nothing."""
    shape = options.shape_from(**shaping)
    if output is not None:
        refuse_to_overwrite(output, trace, force=force)
    schedule = plan_schedule(read_trace(trace), shape)
    if output is not None:
        write_schedule(schedule, output)
    summary = summarise(schedule)
    if as_json:
        bins = rate_bins(schedule, _CURVE_BINS)
        console.print_json(
            {"trace": trace.name, "shape": schedule.shape, **asdict(summary), "curve": asdict(bins)}
        )
    else:
        show_plan(console.out(), schedule, summary, title=trace.name)


def show_plan(out: Console, schedule: Schedule, summary: ScheduleSummary, *, title: str) -> None:
    """The figures and the curve, 80 columns wide."""
    requests = "1 request" if summary.requests == 1 else f"{summary.requests} requests"
    injected = f" ({summary.injected} injected)" if summary.injected else ""
    if summary.rate_per_s is None:
        out.print(Text(f"{title}: {requests}{injected} within 1 ms"))
    else:
        out.print(Text(f"{title}: {requests}{injected} over {format_duration(summary.duration_s)}"))
        ten = summary.peak_10s_sliding
        in_ten = "" if ten is None else f", {ten} in ten ({ten / 10:.1f}/s)"
        out.print(
            Text(
                f"rate: {summary.rate_per_s:.2f}/s on average; at most "
                f"{summary.peak_1s_sliding} in one second{in_ten}"
            )
        )
    out.print(Text(f"lengths: {_lengths(summary, 'input')} in, {_lengths(summary, 'output')} out"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    table.add_column("window")
    for heading in ("from", "lasts", "requests", "injected", "rate /s"):
        table.add_column(heading, justify="right")
    few = len(summary.windows) <= _MANY_WINDOWS
    for window in summary.windows if few else by_kind(summary.windows):
        table.add_row(
            window.label,
            format_duration(window.start_s),
            format_duration(window.duration_s),
            str(window.requests),
            str(window.injected),
            "-" if window.rate_per_s is None else f"{window.rate_per_s:.2f}",
        )
    out.print(table)
    if summary.rate_per_s is not None:
        for line in plot_lines(
            rate_bins(schedule, plot_width(out.width)),
            ascii_only=not out.encoding.lower().startswith("utf"),
        ):
            out.print(line, no_wrap=True)


def _lengths(summary: ScheduleSummary, side: str) -> str:
    """The sum in the first unit that rows know: tokens, else characters, else bytes."""
    for unit in ("tokens", "chars", "bytes"):
        total = getattr(summary, f"{side}_{unit}")
        if total is not None:
            return f"{total:,} {unit}"
    return "unknown"
