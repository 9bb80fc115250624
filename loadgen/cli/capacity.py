"""`loadgen experiment --find-capacity`: how fast the trace may come before a limit breaks."""

from __future__ import annotations

import math
import signal
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from loadgen.cli import console
from loadgen.cli.bench import WIDE, Bench
from loadgen.compare.compared_run import UnusableRun
from loadgen.errors import ExitCode, LoadgenError, RunError
from loadgen.experiment.capacity import HIGHEST, LOWEST, Capacity, Probe, capacity_of, next_speed
from loadgen.experiment.capacity_log import CapacityLog
from loadgen.experiment.matrix import Cell, Load, MatrixTarget
from loadgen.experiment.result import result_of
from loadgen.plan.schedule import Schedule

# So many runs in a row in which the generator was late, and it is the generator that has to be looked after.
_MAX_VOID = 3


def search_capacity(bench: Bench, *, as_json: bool) -> int:
    """Search for each target and load of the experiment, and show what was found; the exit code."""
    log = CapacityLog(bench.folder.path)
    try:
        for load in bench.matrix.loads:
            for target in bench.matrix.targets:
                signal_name = _search(bench, log, target, load)
                if signal_name is not None:
                    _tell_stopped(bench)
                    return 128 + signal.Signals[signal_name]
    except KeyboardInterrupt:
        _tell_stopped(bench)
        return int(ExitCode.INTERRUPTED)
    except LoadgenError:
        _tell_stopped(bench)
        raise
    return _show(bench, log, as_json=as_json)


def _search(bench: Bench, log: CapacityLog, target: MatrixTarget, load: Load) -> str | None:
    """Probe until the limit is found; returns the signal that ended it early, if one did."""
    voids = 0
    while speed := next_speed(
        probes := log.probes(target.name, load.name), precision=bench.precision, confirm=bench.confirm
    ):
        name = f"{target.name}-{load.name}-x{speed:.3g}"
        schedule = _at(bench, load, speed)
        run = bench.run_at(name, target.with_flags(load.serve), schedule, health=target.health)
        if run.signal_name is not None:
            return run.signal_name
        result = result_of(run.path, Cell(target.name, load.name, len(probes)))
        if result.unjudged is not None:
            raise RunError(
                f"{name}: nothing is known of {result.unjudged!r}, so that nobody can say whether it holds",
                hint="give a limit of what the run tells: " + f"loadgen report {run.path}",
            )
        if not result.valid:
            voids += 1
            console.note(f"{name}: does not count, the generator was late")
            if voids >= _MAX_VOID:
                raise UnusableRun(
                    f"{_MAX_VOID} runs in a row do not count, since the generator was late",
                    hint="give it cores of its own, [send] workers, or a higher --max-lateness",
                )
            continue
        voids = 0
        held = bool(result.kept)
        log.add(target.name, load.name, Probe(speed, held, run.path.name, result.values["offered_rate"]))
        rate = result.values["offered_rate"]
        console.note(
            f"{target.name} at {load.name}, {speed:.3g} times as fast"
            f"{'' if rate is None else f' ({rate:.3g}/s)'}: {'held' if held else 'broken'}"
        )
    return None


def _at(bench: Bench, load: Load, speed: float) -> Schedule:
    """The load's schedule, that much faster than it is by itself, and sent again until it lasts as long."""
    changed: dict[str, Any] = {
        "speedup": speed * float(load.options.get("speedup", 1.0)),
        "repeat": math.ceil(speed) * int(load.options.get("repeat") or 1),
    }
    if (rate := load.options.get("request_rate")) is not None:
        changed["request_rate"] = speed * float(rate)  # a rate is that of the run, however fast it goes
    return bench.schedule_of(load, **changed)


def _show(bench: Bench, log: CapacityLog, *, as_json: bool) -> int:
    found: list[tuple[str, str, Capacity]] = [
        (target.name, load.name, capacity_of(log.probes(target.name, load.name)))
        for load in bench.matrix.loads
        for target in bench.matrix.targets
    ]
    limits = [limit.text for limit in bench.criteria.limits]
    if as_json:
        rows: list[dict[str, Any]] = [
            {
                "target": target,
                "load": load,
                **asdict(capacity),
                **({"at_least": None} if bench.cost is not None else {}),
                "probes": [asdict(probe) for probe in log.probes(target, load)],
            }
            for target, load, capacity in found
        ]
        console.print_json(
            {
                "folder": str(bench.folder.path),
                "limits": limits,
                "simulated": bench.cost is not None,
                "capacities": rows,
            }
        )
    else:
        out = console.out()
        out.width = WIDE
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for place, head in enumerate(
            ("target", "load", "holds at", "/s", "runs", "breaks at", "runs", "sure")
        ):
            table.add_column(head, justify="left" if place < 2 else "right", no_wrap=True)
        for target, load, one in found:
            table.add_row(
                target,
                load,
                "nowhere" if one.speed is None else f"x{one.speed:.3g}",
                "-" if one.rate is None else f"{one.rate:.3g}",
                f"{one.held} of {one.runs} held" if one.runs else "-",
                "-" if one.breaks is None else f"x{one.breaks:.3g}",
                f"{one.broken} of {one.breaks_runs} broke" if one.breaks_runs else "-",
                "-" if one.at_least is None or bench.cost is not None else f"{one.at_least:.0%}",
            )
        out.print(Text(f"limits: {'; '.join(limits)}"))
        out.print(table)
        for note in _notes(bench, [capacity for *_, capacity in found]):
            out.print(Text(note), soft_wrap=True)
    return int(ExitCode.OK if all(one.speed is not None for *_, one in found) else ExitCode.LIMIT_BROKEN)


def _notes(bench: Bench, found: Sequence[Capacity]) -> list[str]:
    """What a reader of the table must know."""
    notes = []
    if any(one.speed is None for one in found):
        notes.append(f"nowhere: the limits break even at x{LOWEST:g}, the slowest that is tried")
    if any(one.breaks is None for one in found):
        notes.append(f"breaks at -: the limits hold even at x{HIGHEST:g}, the fastest that is tried")
    if bench.cost is not None:
        return [*notes, "simulated: the same each time, so how sure it is cannot be told by more runs"]
    return [
        *notes,
        "sure: with 90 % confidence the limits hold in at least so many runs; more --confirm tell more",
    ]


def _tell_stopped(bench: Bench) -> None:
    console.note(f"stopped; go on with: loadgen experiment --resume {bench.folder.path}")
