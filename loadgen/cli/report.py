"""`loadgen report`: what happened in a run, and whether its limits held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from loadgen.cli import console
from loadgen.durations import parse_duration_s
from loadgen.errors import ExitCode, RunError, UsageError
from loadgen.replay.run_folder import RunFolder
from loadgen.report.goodput import Bound, parse_goodput
from loadgen.report.limit import Limit, error_rate_limit, parse_limit
from loadgen.report.report import build_report, write_report
from loadgen.report.terminal import render
from loadgen.report.validity import Thresholds

_PANEL = "Keeping and judging"

Slo = Annotated[
    list[str] | None,
    typer.Option(
        "--slo",
        metavar="LIMIT",
        rich_help_panel=_PANEL,
        help="A limit, such as 'ttft p99 < 800ms' or 'error_rate < 1%'; exit code 1 if broken. May be given again.",
    ),
]
MaxErrorRate = Annotated[
    str | None,
    typer.Option("--max-error-rate", metavar="SHARE", rich_help_panel=_PANEL, help="Limit, such as 1%."),
]
MaxLateness = Annotated[
    str | None,
    typer.Option(
        "--max-lateness",
        metavar="TIME",
        rich_help_panel=_PANEL,
        help="Run is invalid above this p99 of our own lateness, or 2% of the median TTFT if more. Default: 2ms.",
    ),
]
Goodput = Annotated[
    list[str] | None,
    typer.Option(
        "--goodput",
        metavar="BOUNDS",
        rich_help_panel=_PANEL,
        help="What a good request is, such as 'ttft:800ms latency:3s'; the share of them is a figure.",
    ),
]


def report(
    run: Annotated[Path, typer.Argument(help="A run folder, as replay made it.", metavar="RUN")],
    slo: Slo = None,
    max_error_rate: MaxErrorRate = None,
    max_lateness: MaxLateness = None,
    goodput: Goodput = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON on standard output.")
    ] = False,
) -> None:
    """Show what happened in a run, overall and in each window, and why; also of a run that was killed.

    Writes report.json into the run folder. Exit code 1: a limit is broken; 4: the run is invalid, since the
    generator was the limit; 5: nothing succeeded.
    """
    folder = RunFolder.open(run)
    criteria = criteria_from(
        slo=slo, max_error_rate=max_error_rate, max_lateness=max_lateness, goodput=goodput
    )
    raise typer.Exit(show_report(folder, criteria, as_json=as_json))


@dataclass(frozen=True, slots=True)
class Criteria:
    """What a run is held to: limits on the target, thresholds on ourselves, bounds of a good request."""

    limits: tuple[Limit, ...]
    thresholds: Thresholds
    bounds: tuple[Bound, ...] = ()


def criteria_from(
    *,
    slo: Sequence[str] | None,
    max_error_rate: str | None,
    max_lateness: str | None,
    goodput: Sequence[str] | None = None,
) -> Criteria:
    """The Criteria of these options. Raises UsageError naming the one that cannot be read."""
    limits = [parse_limit(text) for text in slo or ()]
    if max_error_rate is not None:
        limits.append(error_rate_limit(max_error_rate))
    bounds = parse_goodput(goodput or ())
    if not bounds and (unclear := [limit.text for limit in limits if limit.metric == "goodput"]):
        raise UsageError(
            f"--slo {unclear[0]!r}: nothing says what a good request is",
            hint="loadgen report RUN --goodput 'ttft:800ms latency:3s'",
        )
    if max_lateness is None:
        return Criteria(tuple(limits), Thresholds(), bounds)
    max_lateness_s = parse_duration_s(max_lateness, option="--max-lateness")
    return Criteria(tuple(limits), Thresholds(max_lateness_s=max_lateness_s), bounds)


def show_report(folder: RunFolder, criteria: Criteria, *, as_json: bool) -> ExitCode:
    """Build, keep and print the report of `folder`; returns what the verb's exit status should be."""
    built = build_report(folder, criteria.thresholds, criteria.limits, criteria.bounds)
    try:
        write_report(built, folder)
    except RunError as error:
        # A folder that cannot be written to (an archive) can still be read.
        console.note(f"note: {error.message}")
    if as_json:
        console.print_json(built.as_json())
    else:
        render(built, console.out())
    return built.exit_code
