"""`loadgen calibrate`: how late the generator is at rest, and how much this machine can send honestly."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn

from loadgen.cli import console
from loadgen.durations import format_duration
from loadgen.errors import UsageError
from loadgen.replay.calibrate import Effort, Told
from loadgen.replay.calibrate import calibrate as measure
from loadgen.replay.calibration import Calibration, comparison
from loadgen.replay.calibration_file import calibration_for, calibration_path, host_facts, keep
from loadgen.replay.run import Run
from loadgen.replay.transport import TRANSPORT_NAMES
from loadgen.trace.statistics import SECOND_NS, peak_within

_MANY_PER_S = 200  # below, any machine keeps up
_QUICK = Effort(events=(1, 4), rest_s=0.3, probe_s=0.2, climb=(0.1, 0.2), step_s=0.2)


def calibrate(
    workers: Annotated[int, typer.Option("--workers", min=1, help="Sending processes, as in a replay.")] = 1,
    transport: Annotated[
        str, typer.Option("--transport", help=f"As in a replay: {', '.join(TRANSPORT_NAMES)}.")
    ] = "fast",
    realtime: Annotated[
        bool, typer.Option("--realtime", help="As in a replay; needs root or CAP_SYS_NICE.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A try of the machinery in 6 s; the figures are not kept.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the figures as JSON on standard output.")
    ] = False,
) -> None:
    """Measure the generator's lateness and its highest honest rate at a null server on this machine (25 s).

    The figures are kept in your cache folder, and `loadgen replay` compares each plan with them before it sends.
    """
    if transport not in TRANSPORT_NAMES:
        raise UsageError(f"--transport is {transport!r}", hint=f"give one of: {', '.join(TRANSPORT_NAMES)}")
    with _Display() as display:
        calibration = measure(
            workers=workers,
            transport=transport,
            realtime=realtime,
            effort=_QUICK if quick else Effort(),
            on_progress=display.show,
        )
    if not quick:
        keep(calibration, calibration_path())
    if as_json:
        console.print_json(calibration.as_json())
    else:
        _show(calibration)


def _show(calibration: Calibration) -> None:
    count = calibration.workers
    out = console.out()
    out.print(
        f"{'1 worker' if count == 1 else f'{count} workers'} of loadgen on this machine, at a null server:"
    )
    out.print(
        f"  lateness at rest: p50 {format_duration(calibration.floor_p50_s)}, "
        f"p99 {format_duration(calibration.floor_p99_s)}"
    )
    for ceiling in calibration.ceilings:
        least = "" if ceiling.is_reached else "at least "
        events = "event" if ceiling.num_events == 1 else "events"
        out.print(
            f"  highest honest rate: {least}{ceiling.rate_per_s:,.0f} requests per second "
            f"of {ceiling.num_events} {events}"
        )


def compare_with_calibration(run: Run) -> None:
    """Say how a run's busiest second stands to what this machine was found to send honestly, if it is known."""
    settings, table = run.settings, run.schedule.table
    calibration = calibration_for(
        calibration_path(),
        host_facts(),
        workers=run.num_workers,
        transport=settings.transport,
        realtime=settings.realtime,
    )
    if calibration is not None:
        console.note(comparison(calibration, table, stream=run.asking.stream, workers=run.num_workers))
    elif peak_within(run.schedule.planned_ns, SECOND_NS) >= _MANY_PER_S:
        console.note(
            "whether this machine can send that honestly is not known: loadgen calibrate tells (25 s)"
        )


class _Display:
    """A bar on a terminal, a line for each length of stream elsewhere."""

    def __init__(self) -> None:
        self._bar: Progress | None = None
        self._told: int | None = None

    def __enter__(self) -> _Display:
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), console=console.err(), transient=True
            )
            self._bar.add_task("calibrating", total=1.0)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, told: Told) -> None:
        what = f"streams of {told.num_events} events, {told.rate_per_s:,.0f} per second"
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=told.share_done, description=what)
        elif told.num_events != self._told:
            self._told = told.num_events
            console.note(f"calibrating: {what} and up")
