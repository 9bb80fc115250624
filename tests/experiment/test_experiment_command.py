"""`loadgen experiment` as a user runs it: simulated, live at the smallest model, stopped and gone on with."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support import command, traces

LIVE = """
name = "live"

[send]
ignore_eos = true
chars_per_token = 1

[[target]]
name = "serial"
serve = "--preset tiny --policy serial"

[[target]]
name = "continuous"
command = "{python} -m loadgen_target --preset tiny --policy continuous --port {{port}}"
health = "/v1/models"

[[load]]
name = "few"
num_requests = 6
"""


@pytest.fixture
def short(tmp_path: Path) -> Path:
    return traces.written(tmp_path, [0.03 * k for k in range(20)])


def folder_in(out: Path) -> Path:
    (folder,) = out.glob("*-experiment-*")
    return folder


def runs_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if (path / "run.json").is_file()}


def test_the_policies_side_by_side_have_the_order_that_batching_gives(tmp_path: Path) -> None:
    ran = command.run("experiment", "--policies", "all", "--simulate", "--out-dir", tmp_path, "--json")
    assert ran.returncode == 0, ran.stderr
    rows = {(row["load"], row["target"]): row["figures"] for row in json.loads(ran.stdout)["rows"]}
    at_once = {target: figures for (load, target), figures in rows.items() if load == "all at once"}
    assert len(at_once) == 7
    served = [at_once[name]["throughput"] for name in ("serial, inline", "dynamic 8, 150 ms", "continuous 8")]
    assert served[0] * 2 < served[1] < served[2]
    assert at_once["dynamic 8, 150 ms"]["useful_row_share"] < 0.7
    assert at_once["continuous 8"]["useful_row_share"] == pytest.approx(1)
    low = {target: figures for (load, target), figures in rows.items() if load == "2.3 /s"}
    assert low["continuous 8"]["latency_mean"] < low["serial, inline"]["latency_mean"]
    page = (folder_in(tmp_path) / "page.html").read_text(encoding="utf-8")
    assert "Latency against throughput" in page
    assert "continuous 8" in page


def test_live_targets_are_started_for_each_run_and_stopped(short: Path, tmp_path: Path) -> None:
    import sys

    (tmp_path / "live.toml").write_text(LIVE.format(python=sys.executable))
    ran = command.run(
        "experiment", tmp_path / "live.toml", "--trace", short, "--out-dir", tmp_path / "out", "--json",
        "--max-lateness", "30s", "--no-html", "--slo", "latency p99 < 0.001ms", "--markdown", tmp_path / "t.md",
    )  # fmt: skip
    assert ran.returncode == 1, ran.stderr  # the limit cannot hold
    document = json.loads(ran.stdout)
    assert [(row["target"], row["runs"], row["limits_held"]) for row in document["rows"]] == [
        ("serial", 1, 0),
        ("continuous", 1, 0),
    ]
    assert "| few | serial |" in (tmp_path / "t.md").read_text()


def stopped(out: Path, number: signal.Signals, *arguments: object) -> tuple[Path, set[str]]:
    """An experiment that was stopped by a signal after its first run."""
    process = command.start("experiment", *arguments, "--out-dir", out)
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        found = list(out.glob("*-experiment-*/experiment.json"))
        if found and json.loads(found[0].read_text())["made"]:
            break
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.02)
    # One that comes in the last moment of a run may find nobody who waits for it; a user presses again.
    for _ in range(20):
        process.send_signal(number)
        try:
            process.communicate(timeout=5)
            break
        except subprocess.TimeoutExpired:
            continue
    assert process.returncode == 128 + number
    folder = folder_in(out)
    return folder, {one["run"] for one in json.loads((folder / "experiment.json").read_text())["made"]}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_experiment_makes_only_what_is_missing(
    short: Path, tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "live.toml").write_text(LIVE.format(python="python"))
    folder, made = stopped(
        tmp_path / "out", number, tmp_path / "live.toml", "--only", "serial", "--repeats", 4, "--trace", short,
        "--max-lateness", "30s",
    )  # fmt: skip
    assert 1 <= len(made) < 4
    again = command.run("experiment", "--resume", folder, "--json")
    assert again.returncode == 0, again.stderr
    (row,) = json.loads(again.stdout)["rows"]
    assert row["runs"] == 4
    entries = json.loads((folder / "experiment.json").read_text())["made"]
    assert made <= {one["run"] for one in entries}
    assert sorted(one["cell"]["repeat"] for one in entries) == [0, 1, 2, 3]


def test_a_whole_experiment_is_not_run_again_and_a_lost_run_is(tmp_path: Path) -> None:
    given = ["concurrency", "--simulate", "--out-dir", tmp_path, "--no-html"]
    assert command.run("experiment", *given).returncode == 0
    folder = folder_in(tmp_path)
    before = runs_in(folder)
    assert len(before) == 12
    assert command.run("experiment", "--resume", folder, "--no-html").returncode == 0
    assert runs_in(folder) == before
    lost = sorted(before)[0]
    shutil.rmtree(folder / lost)
    assert command.run("experiment", "--resume", folder, "--no-html").returncode == 0
    (new,) = runs_in(folder) - before
    assert new.rpartition("-")[0].rpartition("-")[0] == lost.rpartition("-")[0].rpartition("-")[0]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "give an experiment"),
        (["none.toml"], "none.toml"),
        (["--policies", "some"], "--policies"),
        (["policies", "--only", "best", "--simulate"], "--only best"),
        (["policies", "--policies", "all"], "give an experiment"),
        (["--resume", "nowhere"], "is no experiment"),
        (["policies", "--resume", "nowhere"], "--resume"),
    ],
)
def test_wrong_use_is_told_in_one_line(arguments: list[str], named: str, tmp_path: Path) -> None:
    ran = command.run("experiment", *arguments, "--out-dir", tmp_path / "out")
    assert ran.returncode == 2
    assert named in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "out").exists()


def test_a_ready_experiment_can_be_taken_and_changed(tmp_path: Path) -> None:
    shown = command.run("experiment", "policies", "--show")
    assert shown.returncode == 0
    changed: Any = shown.stdout.replace("request_rate = 8.0", "request_rate = 1.0")
    (tmp_path / "mine.toml").write_text(changed)
    ran = command.run(
        "experiment", tmp_path / "mine.toml", "--simulate", "--only", "continuous 8", "--json",
        "--out-dir", tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["rows"][2]["figures"]["offered_rate"] == pytest.approx(1.0, rel=0.1)
