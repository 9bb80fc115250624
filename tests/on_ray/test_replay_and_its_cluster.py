"""A replay whose cluster is not there, is another, is full, or is left early: one line, a code, nothing left."""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import signal
import socket
import subprocess
import threading
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
    """A cluster with two CPUs."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 2, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster: Any = Cluster(initialize_head=True, head_node_args=head)
    try:
        yield cluster.address
    finally:
        cluster.shutdown()


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Ten seconds, a third of it in sessions."""
    arrivals = [0.05 * k for k in range(200)]
    return traces.written(tmp_path, arrivals, session=[k % 9 if k % 3 == 0 else None for k in range(200)])


@pytest.fixture
def target() -> Iterator[FakeTarget]:
    with FakeTarget(lambda _: chat_stream(4, first_s=0.01)) as fake:
        yield fake


def replay(
    address: str, trace: Path, target: FakeTarget, *more: object, workers: int = 2, **settings: Any
) -> subprocess.Popen[bytes]:
    """Run folders go beside the trace, into `runs`."""
    return command.start(
        *("replay", trace, "--url", target.url, "--ray", address, "--workers", workers),
        *("--out-dir", trace.parent / "runs", "--max-lateness", "30s", *more),
        **settings,
    )


def ended(process: subprocess.Popen[bytes], within_s: float = 90) -> tuple[int, str]:
    out, err = process.communicate(timeout=within_s)
    return process.returncode, (out + err).decode()


def wait_until_no_actors(address: str) -> None:
    deadline_s = time.monotonic() + 30
    while processes_of(address, "ray::WorkerActor", "ray::NodeClock"):
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


def refused(address: str, trace: Path, target: FakeTarget, *more: object, **settings: Any) -> str:
    """The one line that it ends with, with exit code 2, before anything was sent or kept."""
    code, text = ended(replay(address, trace, target, *more, **settings))
    assert code == 2, text
    assert "Traceback" not in text
    assert target.requests == []
    assert not (trace.parent / "runs").exists() or not list((trace.parent / "runs").iterdir())
    (line,) = (line for line in text.splitlines() if line.startswith("error: "))
    assert text.splitlines()[-1].startswith("hint: ")
    return line


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def test_where_nobody_listens_it_says_so(nobody: str, trace: Path, target: FakeTarget) -> None:
    assert "Connection refused" in refused(nobody, trace, target)
    line = refused("auto", trace, target, env={"RAY_ADDRESS": nobody})
    assert "--ray auto" in line and nobody in line


def test_what_is_no_address_or_no_head_is_told_of(trace: Path, target: FakeTarget) -> None:
    for text in ("nonsense", "http://127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999"):
        assert text in refused(text, trace, target)
    # Something else answers there, as at the port of Ray's dashboard.
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        try:
            assert "is no head of Ray" in refused(f"127.0.0.1:{other.server_port}", trace, target)
        finally:
            other.shutdown()
            thread.join()
    # And something that does not even answer.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert "timed out" in refused(f"127.0.0.1:{silent.getsockname()[1]}", trace, target)


def imports(folder: Path, text: str) -> dict[str, str]:
    """The environment of a Python that runs this before all else."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


def test_without_ray_it_says_what_to_install(trace: Path, target: FakeTarget, tmp_path: Path) -> None:
    env = imports(tmp_path / "hook", "import sys\nsys.modules['ray'] = None\n")
    assert "needs the package ray" in refused("local", trace, target, env=env)


def test_another_version_of_ray_or_loadgen_is_refused_by_name(
    address: str, trace: Path, target: FakeTarget, tmp_path: Path
) -> None:
    import ray

    env = imports(tmp_path / "ray", "import ray\nray.__version__ = '2.1.0'\n")
    line = refused(address, trace, target, env=env)
    assert "Version mismatch" in line and ray.__version__ in line and "2.1.0" in line
    env = imports(tmp_path / "own", "import loadgen\nloadgen.__version__ = '99.0'\n")
    assert "this machine 99.0" in refused(address, trace, target, env=env)


def test_records_to_a_place_that_cannot_be_written_begins_nothing(
    address: str, trace: Path, target: FakeTarget, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    line = refused(address, trace, target, "--records-to", tmp_path / "file" / "inner")
    assert "cannot be written to (Not a directory)" in line
    wait_until_no_actors(address)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_waits_for_room_can_be_ended(
    address: str, trace: Path, target: FakeTarget, number: signal.Signals, code: int
) -> None:
    process = replay(address, trace, target, workers=3)
    assert process.stderr is not None
    for line in process.stderr:
        if b"CPUs free: waiting for 3" in line:
            break
    time.sleep(0.5)  # it waits now, or will; either is to end
    process.send_signal(number)
    found, text = ended(process, within_s=30)
    assert (found, text) == (code, "")
    assert target.requests == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_ended_early_keeps_its_records_and_leaves_no_actor(
    address: str, trace: Path, target: FakeTarget, number: signal.Signals
) -> None:
    process = replay(address, trace, target)
    deadline_s = time.monotonic() + 60
    while len(target.requests) < 40:
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.05)
    os.kill(process.pid, number)
    code, text = ended(process)
    assert code == 128 + number, text
    assert f"interrupted by {number.name}" in text
    wait_until_no_actors(address)
    sent = len(target.requests)
    (run,) = (trace.parent / "runs").iterdir()
    outcomes = RunFolder.open(run).read_requests().column("outcome").to_pylist()
    assert len(outcomes) == 200
    assert outcomes.count("not_sent") == 200 - sent
    assert outcomes.count("ok") >= 30
    assert RunFolder.open(run).read_facts()["status"] == "interrupted"


def test_what_is_killed_leaves_no_actor_and_can_be_reported(
    address: str, trace: Path, target: FakeTarget
) -> None:
    process = replay(address, trace, target)
    deadline_s = time.monotonic() + 60
    while len(target.requests) < 60:
        assert process.poll() is None and time.monotonic() < deadline_s
        time.sleep(0.05)
    process.kill()
    process.communicate(timeout=30)
    wait_until_no_actors(address)
    (run,) = (trace.parent / "runs").iterdir()
    told = command.run("report", run, "--json", "--max-lateness", "30s")
    requests = json.loads(told.stdout)["requests"]
    assert requests["planned"] == 200
    assert requests["sent"] >= 30


def test_fewer_requests_than_workers_and_injections_are_the_schedule_of_one_machine(
    address: str, trace: Path, target: FakeTarget
) -> None:
    shape = ("--duration", "2s", "--inject-peak", "--peak-width", "200ms", "--seed", "4")
    injected = (*shape, "--inject-burst", "20", "--burst-at", "1.6s")
    for more in (injected, ("--num-requests", "1")):
        code, text = ended(replay("auto", trace, target, *more, env={"RAY_ADDRESS": address}))
        assert code == 0, text
        on_ray = target.requests.copy()
        target.requests.clear()
        alone = command.run(
            *("replay", trace, "--url", target.url, "--out-dir", trace.parent / "alone", *more),
            *("--max-lateness", "30s"),
        )
        assert alone.returncode == 0, alone.stderr
        assert sorted(str(one.body) for one in on_ray) == sorted(str(one.body) for one in target.requests)
        target.requests.clear()
        hashes = set()
        for out in ("runs", "alone"):
            folder = RunFolder.open(max((trace.parent / out).iterdir(), key=lambda one: one.stat().st_mtime))
            hashes.add(folder.read_facts()["schedule_hash"])
            assert set(folder.read_requests().column("outcome").to_pylist()) == {"ok"}
        assert len(hashes) == 1
