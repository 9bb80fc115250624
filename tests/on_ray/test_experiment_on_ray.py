"""An experiment on a cluster of two nodes of this machine: side by side where that is allowed, else in turn."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster: Any = Cluster(initialize_head=True, head_node_args=node)
    try:
        cluster.add_node(**node)
        yield cluster.address
    finally:
        cluster.shutdown()


@pytest.fixture
def short(tmp_path: Path) -> Path:
    return traces.written(tmp_path, [0.1 * k for k in range(10)])


def matrix(path: Path, *targets: str, **head: object) -> Path:
    text = "".join(f"{key} = {value!r}\n" for key, value in head.items())
    path.write_text(text + "".join(f"[[target]]\n{target}\n" for target in targets))
    return path


def target(name: str, fake: FakeTarget, on: str | None = None) -> str:
    return f'name = "{name}"\nurl = "{fake.url}"\n' + ("" if on is None else f'on = ["{on}"]\n')


def spans(folder: Path) -> list[tuple[int, int, str]]:
    """Start and end of each run on the wall clock in ns, in order, with its target."""
    (folder,) = folder.glob("*-experiment-*")
    found = []
    for made in json.loads((folder / "experiment.json").read_text())["made"]:
        facts = RunFolder.open(folder / made["run"]).read_facts()
        assert facts["status"] == "complete"
        began_ns = facts["started_unix_ns"]
        found.append((began_ns, began_ns + facts["run_end_ns"], made["cell"]["target"]))
    return sorted(found)


def overlap(runs: list[tuple[int, int, str]]) -> int:
    return sum(one[0] < other[1] and other[0] < one[1] for one in runs for other in runs if one < other)


def run(address: str, file: Path, trace: Path, out: Path, *more: object) -> Any:
    return command.run(
        "experiment", file, "--trace", trace, "--ray", address, "--out-dir", out, "--no-html",
        "--max-lateness", "30s", *more,
    )  # fmt: skip


def slow() -> FakeTarget:
    """Each answer takes a second, so that a run does, too."""
    return FakeTarget(lambda _: chat_stream(2, first_s=2.0))


def test_own_servers_go_side_by_side_and_one_server_is_asked_by_one_run_at_a_time(
    address: str, short: Path, tmp_path: Path
) -> None:
    with slow() as first, slow() as second:
        file = matrix(
            tmp_path / "m.toml", target("a", first, "gpu-1"), target("b", second, "gpu-2"), repeats=2
        )
        ran = run(address, file, short, tmp_path / "out")
        assert ran.returncode == 0, ran.stderr
        assert len(first.requests) >= 20 and len(second.requests) >= 20
    runs = spans(tmp_path / "out")
    assert len(runs) == 4
    assert not any(overlap([one for one in runs if one[2] == name]) for name in "ab")
    assert overlap(runs) >= 1
    assert "side by side, also on one machine: a, b" in ran.stderr


def test_where_a_server_is_not_told_runs_follow_each_other_and_it_says_why(
    address: str, short: Path, tmp_path: Path
) -> None:
    with slow() as first, slow() as second:
        file = matrix(tmp_path / "m.toml", target("a", first), target("b", second, "gpu-2"))
        ran = run(address, file, short, tmp_path / "out")
    assert ran.returncode == 0, ran.stderr
    assert overlap(spans(tmp_path / "out")) == 0
    assert "nothing runs beside a" in ran.stderr


def test_what_starts_a_server_has_the_machine_to_itself_and_what_failed_is_made_by_resume(
    address: str, short: Path, tmp_path: Path
) -> None:
    flags = "--preset tiny --policy serial"
    file = matrix(
        tmp_path / "m.toml",
        f'name = "one"\nserve = "{flags}"',
        f'name = "two"\nserve = "{flags}"',
        'name = "no such"\nurl = "http://127.0.0.1:9"\non = ["gpu-3"]',
    )
    ran = run(address, file, short, tmp_path / "out")
    assert ran.returncode == 5, ran.stderr
    assert "2 nodes on 1 machine" in ran.stderr
    runs = spans(tmp_path / "out")
    assert [target for *_, target in runs] in (["one", "two"], ["two", "one"])
    assert overlap(runs) == 0
    (folder,) = (tmp_path / "out").iterdir()
    # Without a cluster it goes on from there.
    again = command.run("experiment", "--resume", folder, "--no-html")
    assert "1 of 3 runs to make" in again.stderr
    assert again.returncode == 5


def test_simulations_go_side_by_side_and_give_what_one_machine_gives(address: str, tmp_path: Path) -> None:
    figures = []
    for name, more in (("ray", ("--ray", address)), ("alone", ())):
        ran = command.run(
            "experiment", "concurrency", "--simulate", "--json", "--no-html",
            "--out-dir", tmp_path / name, *more,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        figures.append([{**row, "run": None} for row in json.loads(ran.stdout)["rows"]])
    assert figures[0] == figures[1]


def test_ctrl_c_keeps_what_was_made_and_leaves_no_process(address: str, short: Path, tmp_path: Path) -> None:
    with slow() as first:
        file = matrix(tmp_path / "m.toml", target("a", first, "gpu-1"), repeats=3)
        process = command.start(
            "experiment", file, "--trace", short, "--ray", address, "--out-dir", tmp_path / "out", "--no-html",
            "--max-lateness", "30s",
        )  # fmt: skip
        deadline_s = time.monotonic() + 60
        while len(first.requests) < 15:  # the second run is under way
            assert process.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert b"--resume" in err
        while processes_of(address, "ray::_make"):
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        assert len(first.requests) < 30
    assert len(spans(tmp_path / "out")) == 1


def test_a_claim_that_no_node_has_is_refused(address: str, short: Path, tmp_path: Path) -> None:
    file = matrix(tmp_path / "m.toml", 'name = "big"\nserve = ""\ncpus = 500')
    ran = run(address, file, short, tmp_path / "out")
    assert ran.returncode == 2
    assert "target big takes 500 CPUs" in ran.stderr
