"""Experiment: runs the cells that are missing, one after the other, and keeps which were made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadgen.errors import RunError
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


def run_missing(
    folder: ExperimentFolder,
    cells: Sequence[Cell],
    make: Callable[[Cell], MadeRun],
    on_made: Callable[[Cell, Path, int], None],
) -> str | None:
    """Make the runs that are missing; returns the signal that ended it early, if one did.

    make: makes the run of a cell, in the folder. on_made: is told of each, with how many are left. A run that did
    not come to its end counts for nothing, and is made anew when the experiment goes on. Raises RunError when one
    failed by itself.
    """
    left = missing(folder, cells)
    while left:
        cell = left.pop(0)
        run = make(cell)
        if run.signal_name is not None:
            return run.signal_name
        status = RunFolder.open(run.path).read_facts().get("status")
        if status != RunStatus.COMPLETE:
            raise RunError(f"{cell.name}: the run is {status}", hint=f"look at it: loadgen report {run.path}")
        folder.add(Made(cell, run.path.name))
        on_made(cell, run.path, len(left))
    return None


def results_of(folder: ExperimentFolder, cells: Sequence[Cell]) -> list[Result]:
    """The figures of all runs that were made of `cells`, in the order they were made."""
    wanted = set(cells)
    return [result_of(folder.path / one.run, one.cell) for one in folder.made if one.cell in wanted]
