"""An experiment on a cluster whose nodes are lost while they make a run: it is made once more, or marked."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from loadgen.replay.run_folder import RunFolder
from loadgen.testing import FakeTarget, chat_stream
from support import command, traces
from support.ray_nodes import processes_of

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'loadgen[ray]'"
    ),
    # Ray's own, while a cluster begins and ends in this process.
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A head that makes no runs, since whoever began them would be lost with it; and three nodes that do."""
    from ray.cluster_utils import Cluster

    node = {"object_store_memory": 100_000_000, "include_dashboard": False}
    health = {"health_check_period_ms": 500, "health_check_failure_threshold": 4}
    cluster: Any = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": health, **node}
    )
    try:
        for _ in range(3):
            cluster.add_node(num_cpus=1, **node)
        yield cluster.address
    finally:
        cluster.shutdown()


def lose_node_that_makes(address: str) -> None:
    """SIGKILL to every process of the node on which a run is being made."""
    (maker,) = processes_of(address, "ray::_make")
    raylet = maker.parent()
    assert raylet is not None
    for process in [*raylet.children(recursive=True), raylet]:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def wait_for(fake: FakeTarget, count: int) -> None:
    deadline_s = time.monotonic() + 60
    while len(fake.requests) < count:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


# In this order: nodes do not come back.
@pytest.mark.parametrize("num_lost", [1, 2])
def test_a_run_lost_with_its_node_is_made_once_more_and_not_again(
    address: str, tmp_path: Path, num_lost: int
) -> None:
    trace = traces.written(tmp_path, [0.2 * k for k in range(15)])
    file = tmp_path / "m.toml"
    with FakeTarget(lambda _: chat_stream(2)) as fake:
        file.write_text(f'[[target]]\nname = "a"\nurl = "{fake.url}"\non = ["gpu-1"]\n')
        process = command.start(
            "experiment", file, "--trace", trace, "--ray", address, "--out-dir", tmp_path / "out", "--no-html",
            "--max-lateness", "30s",
        )  # fmt: skip
        sent = 0
        for _ in range(num_lost):
            wait_for(fake, sent + 5)
            lose_node_that_makes(address)
            sent = len(fake.requests)
        _, err_bytes = process.communicate(timeout=90)
        err = err_bytes.decode()
        (folder,) = (tmp_path / "out").iterdir()
        assert "the node that made it was lost" in err
        assert err.count("it is made once more") == 1
        if num_lost == 2:
            assert process.returncode == 5, err
            assert "--resume" in err
            assert json.loads((folder / "experiment.json").read_text())["made"] == []
            # Without a cluster it goes on from there.
            again = command.run("experiment", "--resume", folder, "--no-html")
            assert again.returncode == 0, again.stderr
        else:
            assert process.returncode == 0, err
    (made,) = json.loads((folder / "experiment.json").read_text())["made"]
    run = RunFolder.open(folder / made["run"])
    assert run.read_facts()["status"] == "complete"
    assert set(run.read_requests().column("outcome").to_pylist()) == {"ok"}
    assert not list(folder.glob(".*"))  # nothing of those that were lost


def test_a_cluster_without_cpus_is_refused(address: str, tmp_path: Path) -> None:
    """Of this one, all nodes that had any are lost by now."""
    trace = traces.written(tmp_path, [0.1, 0.2])
    file = tmp_path / "m.toml"
    file.write_text('[[target]]\nname = "a"\nurl = "http://127.0.0.1:9"\non = ["gpu-1"]\n')
    told = command.run("experiment", file, "--trace", trace, "--ray", address, "--out-dir", tmp_path / "out")
    assert told.returncode == 2, told.stderr
    assert "no node of the cluster has CPUs" in told.stderr
