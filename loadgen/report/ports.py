"""Ports: whether the generator came near the number that its machine has for connections to one address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Of the ports; connections that were closed keep theirs for up to a minute and are not counted.
_NEAR = 0.8


def port_warnings(generator: Mapping[str, Any]) -> Iterator[str]:
    """A warning for each machine that held nearly as many connections as it has ports. generator: of run.json."""
    workers = {worker["worker"]: worker for worker in generator.get("workers") or ()}
    nodes = generator.get("nodes") or [{"workers": list(workers)}]
    for node in nodes:
        here = [workers[number] for number in node["workers"] if number in workers]
        held = sum(worker.get("most_connections") or 0 for worker in here)
        ports = min((worker["num_ports"] for worker in here if worker.get("num_ports")), default=None)
        if ports is not None and held > _NEAR * ports:
            where = f" on {node['host']}" if "host" in node else ""
            yield (
                f"the generator{where} held up to {held} connections at once, of the {ports} ports that there are "
                "to one address; requests beyond them fail (client_error): widen net.ipv4.ip_local_port_range"
            )
