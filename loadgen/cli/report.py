"""`loadgen report`: what happened in a run, and whether its limits held."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from loadgen.atomic_file import write_text
from loadgen.cli import console
from loadgen.durations import parse_duration_s
from loadgen.errors import ExitCode, RunError, UsageError
from loadgen.replay.run_folder import RunFolder
from loadgen.report.charts import charts_of
from loadgen.report.curves import Curves, curves
from loadgen.report.export.forms import FORMS, write_exports
from loadgen.report.figures import Missing
from loadgen.report.goodput import Bound, parse_goodput
from loadgen.report.junit import as_junit
from loadgen.report.limit import Limit, error_rate_limit, parse_limit
from loadgen.report.markdown import as_markdown
from loadgen.report.page import as_page
from loadgen.report.plots import write_plots
from loadgen.report.production import Production, production_of
from loadgen.report.recorded_run import RecordedRun, read_run
from loadgen.report.report import Report, build_report, report_of, write_report
from loadgen.report.terminal import render
from loadgen.report.validity import MAX_LOOP_LAG_S, Thresholds
from loadgen.trace.parquet import read_trace

_PANEL = "Keeping and judging"
_FORMS = "Forms"

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
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", rich_help_panel=_FORMS, help="One page with charts; it works offline."
        ),
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option("--plots", metavar="DIR", rich_help_panel=_FORMS, help="Each chart as PNG and SVG."),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            "--markdown", metavar="FILE", rich_help_panel=_FORMS, help="For a comment under a merge request."
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", rich_help_panel=_FORMS, help="JUnit XML: a case a limit."),
    ] = None,
    export: Annotated[
        list[str] | None,
        typer.Option(
            "--export",
            metavar="FORM",
            rich_help_panel=_FORMS,
            help=f"For other tools: {', '.join(FORMS)}. May be given again.",
        ),
    ] = None,
    export_dir: Annotated[
        Path | None,
        typer.Option(
            "--export-dir", metavar="DIR", rich_help_panel=_FORMS, help="Default: export/ in the run folder."
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace",
            metavar="TRACE",
            rich_help_panel=_FORMS,
            help="The trace that was replayed: charts show its own latencies beside the run's.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as JSON on standard output.")
    ] = False,
) -> None:
    """Show what happened in a run, overall and in each window, and why; also of a run that was killed.

    Holds the run to the limits it was made with; --slo and the like take their place. Writes report.json into
    the run folder. Exit code 1: a limit is broken; 4: the run is invalid, since the generator was the limit; 5:
    nothing succeeded.
    """
    folder = RunFolder.open(run)
    made_with = folder.read_facts().get("settings") or {}
    criteria = criteria_from(
        slo=slo or made_with.get("slo"),
        max_error_rate=max_error_rate or made_with.get("max_error_rate"),
        max_lateness=max_lateness or made_with.get("max_lateness"),
        goodput=goodput or made_with.get("goodput"),
    )
    if unknown := [form for form in export or () if form not in FORMS]:
        raise UsageError(f"--export {unknown[0]}: no such form", hint=f"one of: {', '.join(FORMS)}")
    read = read_run(folder)
    built = report_of(read, criteria.thresholds, criteria.limits, criteria.bounds)
    _keep(built, folder)
    if html is not None or plots is not None:
        charts = charts_of(built, _curves(built, read), _production(trace, read))
        if html is not None:
            _write(html, as_page(built, charts))
        if plots is not None:
            _say_written(write_plots(charts, plots))
    if markdown is not None:
        _write(markdown, as_markdown(built))
    if junit is not None:
        _write(junit, as_junit(built))
    _say_written(write_exports(built, read, export or (), export_dir or folder.path / "export"))
    raise typer.Exit(_show(built, as_json=as_json))


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
    allowed_s = parse_duration_s(max_lateness, option="--max-lateness")
    # Whoever grants lateness grants what makes it: both only say how busy the generator's machine may be.
    return Criteria(
        tuple(limits), Thresholds(allowed_s, max_loop_lag_s=max(MAX_LOOP_LAG_S, allowed_s)), bounds
    )


def show_report(folder: RunFolder, criteria: Criteria, *, as_json: bool) -> ExitCode:
    """Build, keep and print the report of `folder`; returns what the verb's exit status should be."""
    built = build_report(folder, criteria.thresholds, criteria.limits, criteria.bounds)
    _keep(built, folder)
    return _show(built, as_json=as_json)


def _keep(built: Report, folder: RunFolder) -> None:
    try:
        write_report(built, folder)
    except RunError as error:
        # A folder that cannot be written to (an archive) can still be read.
        console.note(f"note: {error.message}")


def _show(built: Report, *, as_json: bool) -> ExitCode:
    if as_json:
        console.print_json(built.as_json())
    else:
        render(built, console.out())
    return built.exit_code


def _curves(built: Report, read: RecordedRun) -> Curves:
    return curves(read.seen, built.timeline.bin_s, len(built.timeline.labels))


def _production(path: Path | None, read: RecordedRun) -> Production | None:
    """Of the trace at `path`, which must be the one that was replayed. Raises UsageError where it is another."""
    if path is None:
        return None
    trace = read_trace(path)
    if trace.trace_id != read.schedule.trace_id:
        raise UsageError(
            f"--trace {path}: is not the trace of this run", hint="give the one that was replayed"
        )
    found = production_of(trace, read.seen)
    if isinstance(found, Missing):
        console.note(f"note: {found.reason}")
        return None
    return found


def _write(path: Path, text: str) -> None:
    try:
        write_text(path, text)
    except OSError as exc:
        raise UsageError(f"{path}: cannot be written ({exc.strerror})", hint="give another place") from exc
    _say_written([path])


def _say_written(paths: Sequence[Path]) -> None:
    for path in paths:
        console.note(f"written: {path}")
