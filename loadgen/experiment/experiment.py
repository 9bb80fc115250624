"""Experiment: runs the cells that are missing, one after the other, and keeps which were made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadgen.errors import GeneratorLimit, LoadgenError, RunError, TargetError
from loadgen.experiment.experiment_folder import ExperimentFolder, Made
from loadgen.experiment.matrix import Cell
from loadgen.experiment.result import Result, result_of
from loadgen.replay.run_folder import RunFolder, RunStatus


@dataclass(frozen=True, slots=True)
class MadeRun:
    """A run that was made for a cell. signal_name: of the signal that ended it early, or None."""

    path: Path
    signal_name: str | None = None


def missing(folder: ExperimentFolder, cells: Sequence[Cell]) -> list[Cell]:
    """Those of `cells` that have no run yet, in their order."""
    made = {one.cell for one in folder.made}
    return [cell for cell in cells if cell not in made]


@dataclass(frozen=True, slots=True)
class Ended:
    """signal_name: of the signal that ended it early. failed: targets of which a run failed."""

    signal_name: str | None = None
    failed: tuple[str, ...] = ()


def run_missing(
    folder: ExperimentFolder,
    cells: Sequence[Cell],
    make: Callable[[Cell], MadeRun],
    on_made: Callable[[Cell, Path, int], None],
    on_failed: Callable[[Cell, LoadgenError], None],
) -> Ended:
    """Make the runs that are missing.

    make: makes the run of a cell, in the folder. on_made: is told of each, with how many are left. A run that did
    not come to its end counts for nothing, and is made anew when the experiment goes on. A target of which a run
    fails by itself is left out from there on, and on_failed is told why.
    """
    left = missing(folder, cells)
    failed: dict[str, None] = {}
    while left:
        cell = left.pop(0)
        try:
            run = make(cell)
            if run.signal_name is not None:
                return Ended(run.signal_name, tuple(failed))
            status = RunFolder.open(run.path).read_facts().get("status")
            if status != RunStatus.COMPLETE:
                raise TargetError(f"{cell.name}: the run is {status}", hint=f"loadgen report {run.path}")
        except (TargetError, RunError, GeneratorLimit) as exc:
            failed[cell.target] = None
            left = [one for one in left if one.target != cell.target]
            on_failed(cell, exc)
            continue
        folder.add(Made(cell, run.path.name))
        on_made(cell, run.path, len(left))
    return Ended(None, tuple(failed))


def results_of(folder: ExperimentFolder, cells: Sequence[Cell]) -> list[Result]:
    """The figures of all runs that were made of `cells`, in the order they were made."""
    wanted = set(cells)
    return [result_of(folder.path / one.run, one.cell) for one in folder.made if one.cell in wanted]
