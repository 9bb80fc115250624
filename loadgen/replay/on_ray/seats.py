"""Seats: a CPU of the cluster for each worker, held for the time of a run, spread over its nodes."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

import loadgen
from loadgen.errors import GeneratorLimit, UsageError
from loadgen.ray_cluster import free_cpus
from loadgen.replay.on_ray.node_clock import NodeClock
from loadgen.replay.target import Target

# An autoscaler takes minutes to bring a machine.
ROOM_WITHIN_S = 300.0
# While Ray waits, it is deaf to Ctrl-C.
_LOOK_EVERY_S = 1
_NODE_ANSWERS_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the cluster that has seats. clock: handle of its NodeClock. facts: what it says of itself."""

    node_id: str
    address: str
    clock: Any
    facts: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.facts['host']} ({self.address})"


@dataclass(frozen=True, slots=True)
class Seats:
    """nodes: those that have seats. node_of: of each worker. group: Ray's placement group of them."""

    nodes: tuple[Node, ...]
    node_of: tuple[Node, ...]
    group: Any

    def strategy(self, worker: int) -> PlacementGroupSchedulingStrategy:
        """Where Ray is to start the actor of this worker."""
        return PlacementGroupSchedulingStrategy(self.group, placement_group_bundle_index=worker)


@contextmanager
def taken_seats(num_workers: int) -> Iterator[Seats]:
    """Seats for so many workers, all of them or none; given back with the context.

    Waits for a busy or growing cluster. Raises GeneratorLimit if it has no room, UsageError if a node has not the
    loadgen that this is.
    """
    group = placement_group([{"CPU": 1}] * num_workers, strategy="SPREAD")
    try:
        until_s = time.monotonic() + ROOM_WITHIN_S
        while not group.wait(_LOOK_EVERY_S):
            if time.monotonic() >= until_s:
                raise _no_room(num_workers)
        placed = placement_group_table(group)["bundles_to_node_id"]
        nodes = {node_id: node_of(node_id) for node_id in dict.fromkeys(placed.values())}
        yield Seats(
            tuple(nodes.values()), tuple(nodes[placed[worker]] for worker in range(num_workers)), group
        )
    finally:
        remove_placement_group(group)


def is_up(node: Node) -> bool:
    """Whether the cluster still hears of this node."""
    return any(one["NodeID"] == node.node_id and one["Alive"] for one in ray.nodes())


def refuse_unreachable(target: Target, seats: Seats) -> None:
    """Raise UsageError where the target's address means another machine on some of the nodes."""
    here = ray.util.get_node_ip_address()
    elsewhere = [node for node in seats.nodes if node.address != here]
    if elsewhere and (target.unix_socket is not None or _is_loopback(target.address)):
        raise UsageError(
            f"{target.url} is this machine's own, and {elsewhere[0].name} has workers, too",
            hint="give --url an address that the nodes reach",
        )


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False  # a name: only a proxy knows it


def _no_room(num_workers: int) -> GeneratorLimit:
    cpus = int(ray.cluster_resources().get("CPU", 0))
    return GeneratorLimit(
        f"the cluster has no room for {num_workers} workers: {free_cpus()} of its {cpus} CPUs are free",
        hint="give fewer --workers, or more nodes",
    )


def node_of(node_id: str) -> Node:
    """A node, asked what it is. Raises UsageError if it has not the loadgen that this is."""
    address = next(node["NodeManagerAddress"] for node in ray.nodes() if node["NodeID"] == node_id)
    clock = (
        ray.remote(NodeClock)
        .options(num_cpus=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False))
        .remote()
    )
    try:
        facts = ray.get(clock.facts.remote(), timeout=_NODE_ANSWERS_WITHIN_S)
    except ray.exceptions.RayError as exc:
        raise UsageError(
            f"node {address} cannot run loadgen ({str(exc).strip().splitlines()[-1]})",
            hint=f"install loadgen {loadgen.__version__} with its extra ray on every node",
        ) from exc
    if facts["loadgen"] != loadgen.__version__:
        raise UsageError(
            f"node {address} has loadgen {facts['loadgen']}, this machine {loadgen.__version__}",
            hint="install the same version on every node",
        )
    return Node(node_id, address, clock, facts)
