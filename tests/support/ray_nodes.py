"""A Ray cluster on this machine whose second node has a network and a monotonic clock of its own, in namespaces."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from support.network import SecondNetwork, second_network

_UP_WITHIN_S = 60.0
# Run by a fresh interpreter: the shift holds for the processes that it starts.
_SHIFTED = """
import ctypes, os, sys
if ctypes.CDLL(None).unshare(0x80) != 0:
    sys.exit("no time namespace")
with open("/proc/self/timens_offsets", "w") as file:
    file.write(f"monotonic 0 {sys.argv[1]}\\n")
os.execvp("unshare", ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", *sys.argv[2:]])
"""


def can_shift_clocks() -> bool:
    """Whether this user may make time and process namespaces."""
    if sys.platform != "linux" or not Path("/proc/self/timens_offsets").exists():
        return False
    tried = subprocess.run(
        [sys.executable, "-c", _SHIFTED, "1", "true"], capture_output=True, check=False, timeout=20
    )
    return tried.returncode == 0


class ShiftedNode:
    """A node of the cluster at `address`, in this network, whose monotonic clock is ahead by `shift_ns`.

    without: a folder that is empty for it.
    """

    def __init__(
        self, address: str, shift_ns: int, network: SecondNetwork, without: Path | None = None
    ) -> None:
        hide = [] if without is None else ["sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', str(without)]
        start = [
            *hide,
            *("ray", "start", f"--address={address}", "--num-cpus=1", "--block"),
            *(f"--node-ip-address={network.there}", "--object-store-memory=100000000"),
            "--disable-usage-stats",
        ]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._process = subprocess.Popen(
            [*network.entering, sys.executable, "-c", _SHIFTED, str(shift_ns), *start],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PATH": path},
        )

    def kill(self) -> None:
        """SIGKILL to every process of the node at once, as when its power fails."""
        if self._process.poll() is not None:
            return
        for child in _children(self._process.pid):
            os.kill(child, signal.SIGKILL)  # the first process of the namespace: the rest goes with it
        self._process.kill()
        self._process.wait()


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


@dataclass(frozen=True, slots=True)
class TwoNodes:
    """address: of the cluster. here: address of its first node. second: the other one."""

    address: str
    here: str
    second: ShiftedNode


@contextmanager
def two_nodes(shift_ns: int = 0, *, head_cpus: int = 1, without: Path | None = None) -> Iterator[TwoNodes]:
    """A cluster of two nodes, the second with one CPU, and without what is in this folder."""
    import ray
    from ray.cluster_utils import Cluster

    with second_network() as network:
        cluster: Any = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": head_cpus,
                "node_ip_address": network.here,
                "object_store_memory": 100_000_000,
                "include_dashboard": False,
                "_system_config": {"health_check_period_ms": 500, "health_check_failure_threshold": 4},
            },
        )
        second = ShiftedNode(cluster.address, shift_ns, network, without)
        try:
            ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
            deadline_s = time.monotonic() + _UP_WITHIN_S
            while sum(one["Alive"] for one in ray.nodes()) < 2:
                assert time.monotonic() < deadline_s, "the second node did not come up"
                time.sleep(0.2)
            yield TwoNodes(cluster.address, network.here, second)
        finally:
            second.kill()
            ray.shutdown()
            cluster.shutdown()


def processes_of(address: str, *names: str) -> list[psutil.Process]:
    """Processes that the nodes of the cluster at `address` started for tasks or actors with names such as these."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.name() and " ".join(process.cmdline()[:1]).startswith(names):
                node = process.parent()
                if node is not None and any(address in text for text in node.cmdline()):
                    found.append(process)
    return found
