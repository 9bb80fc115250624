"""Runs of an experiment as tasks of a Ray cluster, side by side where their claims allow it.

Only who asked for a cluster imports this.
"""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from loadgen.errors import GeneratorLimit, LoadgenError, RunError, TargetError
from loadgen.experiment.cell_run import CellRun
from loadgen.experiment.experiment import Ended
from loadgen.experiment.experiment_folder import ExperimentFolder, Made
from loadgen.experiment.matrix import Cell
from loadgen.experiment.placing import Claim, Machine, place
from loadgen.replay.on_ray.niceness import take_back_niceness
from loadgen.replay.on_ray.seats import node_of
from loadgen.replay.run_folder import RunFolder, RunStatus
from loadgen.replay.worker import Progress

_LOOK_EVERY_S = 1.0
# Of a run whose node was lost; on another machine, if there is one.
_MOST_TRIES = 2


@dataclass(frozen=True, slots=True)
class ToMake:
    """A cell's run and what it needs to itself."""

    cell: Cell
    run: CellRun
    claim: Claim


@dataclass(frozen=True, slots=True)
class _Made:
    """What a task gives back. packed: the run folder as a tar archive."""

    name: str
    signal_name: str | None
    packed: bytes


def machines_of_cluster() -> list[Machine]:
    """The nodes that have CPUs. Raises UsageError where one has not the loadgen that this is."""
    found = []
    for one in ray.nodes():
        cpus, gpus = int(one["Resources"].get("CPU", 0)), float(one["Resources"].get("GPU", 0))
        if one["Alive"] and cpus > 0:
            node = node_of(one["NodeID"])
            ray.kill(node.clock)
            devices = sorted(name for name in one["Resources"] if name.startswith("accelerator_type:"))
            kind = f"{node.facts['cpu_model']}, {cpus} CPUs" + (f", {gpus:g} GPUs" if gpus else "")
            kind += "".join(f", {name.partition(':')[2]}" for name in devices)
            found.append(Machine(one["NodeID"], node.facts["boot_id"], cpus, gpus, kind))
    return found


def run_side_by_side(
    folder: ExperimentFolder,
    to_make: Sequence[ToMake],
    machines: Sequence[Machine],
    on_made: Callable[[Cell, Path, int], None],
    on_failed: Callable[[Cell, LoadgenError], None],
    on_again: Callable[[Cell, LoadgenError], None],
) -> Ended:
    """Make all runs, each as soon as what it claims is free, in the order given where two could begin.

    What is made, and what fails, is as in run_missing; a run whose node is lost is made once more, and on_again is
    told why. Whoever ends this early ends the tasks: their runs count for nothing.
    """
    tasks = _Tasks(folder)
    left = list(to_make)
    failed: dict[str, None] = {}
    tries: dict[Cell, int] = {}
    try:
        while left or tasks.running:
            for one in list(left):
                free = place(one.claim, tasks.placed, machines)
                if free is not None:
                    left.remove(one)
                    tries[one.cell] = tries.get(one.cell, 0) + 1
                    tasks.begin(one, free)
            for one, machine, made in tasks.ended():
                if isinstance(made, Path):
                    folder.add(Made(one.cell, made.name))
                    on_made(one.cell, made, len(left) + len(tasks.running))
                elif isinstance(made, _NodeLost) and tries[one.cell] < _MOST_TRIES:
                    left.insert(0, one)
                    on_again(one.cell, made)
                    # The cluster may not know yet that it is gone.
                    machines = [other for other in machines if other is not machine] or machines
                else:
                    failed[one.cell.target] = None
                    left = [other for other in left if other.cell.target != one.cell.target]
                    on_failed(one.cell, made)
    finally:
        tasks.cancel()
    return Ended(None, tuple(failed))


class _NodeLost(RunError):
    """A run is lost with the node that made it."""


class _Tasks:
    """Those under way, each with what it makes and where."""

    def __init__(self, folder: ExperimentFolder) -> None:
        self._folder = folder
        self.running: dict[Any, tuple[ToMake, Machine]] = {}

    @property
    def placed(self) -> list[tuple[Claim, Machine]]:
        return [(one.claim, machine) for one, machine in self.running.values()]

    def begin(self, one: ToMake, machine: Machine) -> None:
        claim = one.claim
        # As many as it claims, so that whoever else uses the cluster stays away meanwhile.
        options = {
            "num_cpus": machine.cpus if claim.cpus is None else claim.cpus,
            "num_gpus": machine.gpus if claim.cpus is None else claim.gpus,
            "scheduling_strategy": NodeAffinitySchedulingStrategy(machine.name, soft=False),
            # What was sent cannot be taken back: whether to send it again is decided here.
            "max_retries": 0,
        }
        self.running[ray.remote(_make).options(**options).remote(one.run)] = (one, machine)

    def ended(self) -> list[tuple[ToMake, Machine, Path | LoadgenError]]:
        """Those that ended within a second, where, and with their run folders or why they have none.

        Raises LoadgenError for what would end any run.
        """
        done, _ = ray.wait(list(self.running), timeout=_LOOK_EVERY_S)
        found: list[tuple[ToMake, Machine, Path | LoadgenError]] = []
        for ref in done:
            one, machine = self.running.pop(ref)
            found.append((one, machine, self._taken(one.cell, ref)))
        return found

    def cancel(self) -> None:
        for ref in self.running:
            ray.cancel(ref, force=True)

    def _taken(self, cell: Cell, ref: Any) -> Path | LoadgenError:
        try:
            made: _Made = ray.get(ref)
        except ray.exceptions.RayTaskError as exc:
            if isinstance(exc.cause, TargetError | RunError | GeneratorLimit):
                return exc.cause
            if isinstance(exc.cause, LoadgenError):
                raise exc.cause from None
            return RunError(f"{cell.name}: {exc.cause}", hint="a fault of loadgen; see Ray's log of its node")
        except ray.exceptions.RayError as exc:
            return _NodeLost(
                f"{cell.name}: the node that made it was lost ({_first_sentence(str(exc))})",
                hint="go on with --resume once the cluster is well",
            )
        path = _unpacked(made, self._folder.path)
        if made.signal_name is not None:
            return _NodeLost(f"{cell.name}: its task was told to end ({made.signal_name})")
        status = RunFolder.open(path).read_facts().get("status")
        if status != RunStatus.COMPLETE:
            return TargetError(f"{cell.name}: the run is {status}", hint=f"loadgen report {path}")
        return path


def _make(run: CellRun) -> _Made:
    """In a task: make the run, in a folder of this node's own."""
    take_back_niceness()
    with tempfile.TemporaryDirectory(prefix="loadgen-") as folder:
        made = run.kept_in(Path(folder)).make(_unheard)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(made.path, arcname=made.path.name)
        return _Made(made.path.name, made.signal_name, packed.getvalue())


def _unheard(_: Progress) -> None:
    """Nobody watches a node."""


def _unpacked(made: _Made, folder: Path) -> Path:
    """The run folder, whole or not at all."""
    aside = folder / f".{made.name}.partial"
    shutil.rmtree(aside, ignore_errors=True)
    with tarfile.open(fileobj=io.BytesIO(made.packed)) as archive:
        archive.extractall(aside, filter="data")
    path = (aside / made.name).rename(folder / made.name)
    aside.rmdir()
    return path


def _first_sentence(text: str) -> str:
    return text.strip().partition("\n")[0].partition(". ")[0]
