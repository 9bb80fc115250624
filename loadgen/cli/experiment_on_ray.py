"""`loadgen experiment --ray`: runs side by side on a cluster where they do not disturb each other."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from pathlib import Path

from loadgen.cli import console
from loadgen.cli.bench import Bench
from loadgen.errors import LoadgenError, UsageError
from loadgen.experiment import words
from loadgen.experiment.experiment import Ended
from loadgen.experiment.matrix import Cell
from loadgen.experiment.placing import Claim, Machine, can_ever_run, most_alike
from loadgen.ray_cluster import joined_cluster
from loadgen.replay.target import Url, parse_url


def run_on_ray(
    bench: Bench,
    address: str,
    cells: Sequence[Cell],
    on_made: Callable[[Cell, Path, int], None],
    on_failed: Callable[[Cell, LoadgenError], None],
) -> Ended:
    """Make the runs of `cells`, telling beforehand which go side by side and why others do not."""
    claims = claims_of(bench)
    with joined_cluster(address):
        # Only now: Ray is an extra, and slow to import.
        from loadgen.experiment.ray_cells import (  # noqa: PLC0415
            ToMake,
            machines_of_cluster,
            run_side_by_side,
        )

        machines = machines_of_cluster()
        if not machines:
            raise UsageError(
                f"--ray {address}: no node of the cluster has CPUs, and a run takes one",
                hint="start a node with `ray start --address HEAD:PORT`",
            )
        if bench.cost is None:
            machines, unlike = most_alike(machines)
            for one in unlike:
                console.note(f"a node is left out: {one.kind}, the others {machines[0].kind}")
        _refuse_what_cannot_run(bench, claims, machines)
        for line in words.side_by_side(claims, machines):
            console.note(line)
        to_make = [ToMake(cell, bench.run_of(cell), claims[cell.target]) for cell in cells]
        return run_side_by_side(bench.folder, to_make, machines, on_made, on_failed, _tell_again)


def _tell_again(_: Cell, why: LoadgenError) -> None:
    console.note(f"{why}; it is made once more")


def claims_of(bench: Bench) -> dict[str, Claim]:
    """By target. A simulation takes a CPU, and disturbs nobody's figures."""
    if bench.cost is not None:
        return {target.name: Claim(1) for target in bench.matrix.targets}
    return {target.name: target.claim(bench.send.workers) for target in bench.matrix.targets}


def _refuse_what_cannot_run(bench: Bench, claims: dict[str, Claim], machines: Sequence[Machine]) -> None:
    for target in bench.matrix.targets:
        claim = claims[target.name]
        if not can_ever_run(claim, machines):
            raise UsageError(
                f"target {target.name} takes {claim.cpus or 'all'} CPUs and {claim.gpus:g} GPUs: no node has them",
                hint=f"the largest: {max(machines, key=lambda one: (one.gpus, one.cpus)).kind}",
            )
        if (
            bench.cost is None
            and target.target.kind == "url"
            and len({one.host for one in machines}) > 1
            and _is_own(parse_url(target.target.text))
        ):
            raise UsageError(
                f"target {target.name}: {target.target.text} is each machine's own, and the cluster has several",
                hint="give it an address that all of them reach",
            )


def _is_own(url: Url) -> bool:
    """Whether this means another machine on each machine."""
    try:
        return url.unix_socket is not None or ipaddress.ip_address(url.host).is_loopback
    except ValueError:
        return url.host == "localhost"
