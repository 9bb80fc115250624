"""A replay over two Ray nodes, the second with another network and clock; a lost worker, then a lost node."""

from __future__ import annotations

import importlib.util
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.replay.run_folder import RunFolder
from loadgen.testing import FakeRequest, FakeTarget, Step, chat_stream
from support import command, traces
from support.network import can_make_networks
from support.ray_nodes import TwoNodes, can_shift_clocks, processes_of, two_nodes

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("ray") is None, reason="Ray is not installed: pip install 'loadgen[ray]'"
    ),
    # Ray's own, while a cluster begins and ends in this process.
    pytest.mark.filterwarnings("default"),
]
SHIFT_NS = 250_000_000


def quick(_: FakeRequest) -> Sequence[Step]:
    return chat_stream(4, first_s=0.005, gap_s=0.002)


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoNodes]:
    if not (can_make_networks() and can_shift_clocks()):
        pytest.skip("this user may make no network and time namespaces")
    with two_nodes(SHIFT_NS) as started:
        yield started


@pytest.fixture
def bursty(tmp_path: Path) -> Path:
    """Five seconds of bursts, a third of it in sessions."""
    rng = np.random.default_rng(7)
    arrivals = np.sort(np.concatenate([rng.uniform(k, k + 0.3, 60) for k in range(5)]))
    sessions = [k % 9 if k % 3 == 0 else None for k in range(arrivals.size)]
    return traces.written(tmp_path, arrivals.tolist(), session=sessions)


def only_run(out_dir: Path) -> RunFolder:
    (path,) = out_dir.iterdir()
    return RunFolder(path)


def replay_on(address: str, trace: Path, url: str, out_dir: Path, *more: object) -> subprocess.Popen[bytes]:
    return command.start(
        *("replay", trace, "--url", url, "--ray", address, "--workers", 2, "--out-dir", out_dir),
        *("--drain", "5s", *more),
    )


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    out, err = process.communicate(timeout=90)
    return process.returncode, (out + err).decode()


def keys(folder: RunFolder) -> list[tuple[Any, ...]]:
    names = ("trace_row", "copy", "window", "planned_ns", "input_tokens_planned", "output_tokens_planned")
    return [tuple(row[name] for name in names) for row in folder.read_requests().to_pylist()]


def test_two_nodes_send_what_one_machine_sends_on_one_clock(
    cluster: TwoNodes, bursty: Path, tmp_path: Path
) -> None:
    with FakeTarget(quick, host=cluster.here) as fake:
        code, text = ended(replay_on(cluster.address, bursty, fake.url, tmp_path / "ray"))
        assert code in (0, 4), text  # 4: too busy a machine to send in time
        received_ns = {request.row: round(request.received_s * 1e9) for request in fake.requests}
        asked_on_ray = Counter(str(request.body) for request in fake.requests)
    with FakeTarget(quick, host=cluster.here) as fake:
        alone = command.run("replay", bursty, "--url", fake.url, "--out-dir", tmp_path / "alone")
        assert alone.returncode in (0, 4), alone.stderr
        asked_alone = Counter(str(request.body) for request in fake.requests)
    run, single = only_run(tmp_path / "ray"), only_run(tmp_path / "alone")
    facts, single_facts = run.read_facts(), single.read_facts()
    # The schedule, row for row, and every prompt, byte for byte.
    assert facts["schedule_hash"] == single_facts["schedule_hash"]
    assert keys(run) == keys(single)
    assert asked_on_ray == asked_alone
    # Records of the same form, from both workers.
    records = run.read_requests()
    assert records.schema == single.read_requests().schema
    assert set(records.column("worker").to_pylist()) == {0, 1}
    # The second node's clock is known, to 1 ms, or it says that it is not.
    clocks = sorted(
        (node["clock"] for node in facts["generator"]["nodes"]), key=lambda clock: abs(clock["offset_ns"])
    )
    for clock, shift_ns in zip(clocks, (0, SHIFT_NS), strict=True):
        assert abs(clock["offset_ns"] - shift_ns) <= clock["uncertainty_ns"]
        assert clock["uncertainty_ns"] <= 1_000_000 or "is known to ±" in str(facts["warnings"])
        assert clock["residual_ns"] <= clock["uncertainty_ns"] + 10_000_000
        assert clock["num_checks"] >= 1
    # No stamp shows its shift: by our clock, the target received it after it was sent, and before it answered.
    unsure_ns = max(clock["uncertainty_ns"] for clock in clocks) + 1_000
    for row in records.to_pylist():
        came_ns = received_ns[row["trace_row"]] - facts["start_monotonic_ns"]
        assert row["sent_ns"] - unsure_ns <= came_ns <= row["headers_ns"] + unsure_ns
    late_ns = np.asarray(records.column("dispatched_ns").to_numpy() - records.column("planned_ns").to_numpy())
    assert late_ns.min() > -unsure_ns - 1_000_000
    assert text.count("its clock") == 2
    # As root, what Ray adds to the niceness of its workers is taken back.
    assert [node["niceness"] for node in facts["generator"]["nodes"]] == [0, 0]
    for worker in facts["generator"]["workers"]:
        of_worker = late_ns[np.asarray(records.column("worker").to_numpy()) == worker["worker"]]
        assert worker["lateness_max_s"] == of_worker.max() / 1e9


def test_a_target_of_this_machine_alone_is_refused(cluster: TwoNodes, bursty: Path, tmp_path: Path) -> None:
    with FakeTarget(quick) as fake:
        code, text = ended(replay_on(cluster.address, bursty, fake.url, tmp_path))
    assert code == 2
    assert "is this machine's own" in text
    assert fake.requests == []


def test_records_left_in_a_shared_folder_are_those_that_come_here(
    cluster: TwoNodes, bursty: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    with FakeTarget(quick, host=cluster.here) as fake:
        code, text = ended(
            replay_on(cluster.address, bursty, fake.url, tmp_path / "ray", "--records-to", shared)
        )
    assert code in (0, 4), text
    run = only_run(tmp_path / "ray")
    rows = run.read_requests().to_pylist()
    assert len(rows) == 300 and {row["outcome"] for row in rows} == {"ok"}
    assert {row["worker"] for row in rows} == {0, 1}
    # On our clock, whoever wrote them; and nothing is left there.
    late_ns = np.array([row["dispatched_ns"] - row["planned_ns"] for row in rows])
    assert np.median(late_ns) < SHIFT_NS / 5
    assert list(shared.iterdir()) == []
    assert run.read_facts()["records_at"] is None


def wait_for(fake: FakeTarget, count: int, process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + 60
    while len(fake.requests) < count:
        assert process.poll() is None, ended(process)
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


@pytest.mark.parametrize("what", ["worker", "node"])  # in this order: the node does not come back
def test_what_is_lost_leaves_the_rest_sending_and_the_run_invalid(
    cluster: TwoNodes, bursty: Path, tmp_path: Path, what: str
) -> None:
    with FakeTarget(quick, host=cluster.here) as fake:
        process = replay_on(cluster.address, bursty, fake.url, tmp_path / "runs")
        wait_for(fake, 90, process)
        if what == "worker":
            processes_of(cluster.address, "ray::WorkerActor")[0].kill()
        else:
            cluster.second.kill()
        code, text = ended(process)
    assert code == 4, text
    assert "1 of 2 workers was lost" in text
    folder = only_run(tmp_path / "runs")
    facts = folder.read_facts()
    (lost,) = facts["generator"]["lost"]
    assert facts["status"] == "complete"
    assert any(f"worker {lost} was lost" in warning for warning in facts["warnings"])
    rows = folder.read_requests().to_pylist()
    assert len(rows) == 300
    # The other one has sent all it had; of the lost one's, some are known, and the rest says whose it was.
    told = [row for row in rows if row["worker"] != -1]
    unknown = [row for row in rows if row["outcome"] == "unrecorded"]
    unsent = [row for row in rows if row["outcome"] == "not_sent"]
    assert len(told) + len(unknown) + len(unsent) == 300
    assert unknown and all(f"worker {lost} was lost" in row["error"] for row in unknown + unsent)
    # What a killed process had still to send was not sent; of a node that is gone, nobody knows.
    assert bool(unsent) == (what == "worker")
    assert all(row["planned_ns"] > max(one["planned_ns"] for one in unknown) for row in unsent)
    assert "not known whether they were sent" in text
    assert {row["outcome"] for row in rows if row["worker"] == 1 - lost} == {"ok"}
    assert {row["worker"] for row in rows} <= {0, 1, -1}
    assert max(row["planned_ns"] for row in rows if row["worker"] == 1 - lost) > 4 * 10**9


def test_a_cluster_that_is_not_there_is_told_of_in_one_line(bursty: Path) -> None:
    ran = command.run("replay", bursty, "--url", "http://127.0.0.1:9", "--ray", "ray://127.0.0.1:9")
    assert ran.returncode in (2, 5)
