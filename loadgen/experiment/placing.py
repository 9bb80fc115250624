"""Placing: which runs of an experiment may go side by side, and on which machine each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """What a run needs to itself while it lasts, so that none beside it changes its figures.

    cpus: of the machine that makes the run, for the server started there and for sending; None: the whole machine.
    gpus: of that machine. servers: what stays up and is asked; of those, two runs side by side have none in common.
    None: where the server is is not known, and so nothing runs beside it.
    """

    cpus: int | None
    gpus: float = 0.0
    servers: frozenset[str] | None = frozenset()


@dataclass(frozen=True, slots=True)
class Machine:
    """A node that can make runs. host: the same for nodes that are parts of one machine. kind: what it is."""

    name: str
    host: str
    cpus: int
    gpus: float = 0.0
    kind: str = ""


def place(
    claim: Claim, running: Sequence[tuple[Claim, Machine]], machines: Sequence[Machine]
) -> Machine | None:
    """Where a run may begin beside those that are running: the least used machine; None: nowhere yet."""
    for other, _ in running:
        if claim.servers is None or other.servers is None or claim.servers & other.servers:
            return None
    used = Counter(machine.host for _, machine in running)
    for machine in sorted(machines, key=lambda one: used[one.host]):
        if _fits(claim, machine, running):
            return machine
    return None


def can_ever_run(claim: Claim, machines: Sequence[Machine]) -> bool:
    """Whether some machine has room for it when nothing else runs."""
    return any(_fits(claim, machine, ()) for machine in machines)


def most_alike(machines: Sequence[Machine]) -> tuple[list[Machine], list[Machine]]:
    """The largest group of one kind, and the others: what ran on unlike machines cannot be compared."""
    count = Counter(machine.kind for machine in machines)
    kind = max(count, key=lambda one: count[one])
    return [one for one in machines if one.kind == kind], [one for one in machines if one.kind != kind]


def _fits(claim: Claim, machine: Machine, running: Sequence[tuple[Claim, Machine]]) -> bool:
    beside = [other for other, where in running if where.host == machine.host]
    if claim.cpus is None:
        return not beside and claim.gpus <= machine.gpus
    if any(other.cpus is None for other in beside):
        return False
    here = [other for other, where in running if where.name == machine.name]
    cpus = claim.cpus + sum(other.cpus or 0 for other in here)
    return cpus <= machine.cpus and claim.gpus + sum(other.gpus for other in here) <= machine.gpus
