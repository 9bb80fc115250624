"""`loadgen advise` as a user runs it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from support import command, traces


@pytest.fixture
def bursty(tmp_path: Path) -> Path:
    arrivals = sorted(1.0 * (k // 5) + 0.004 * (k % 5) for k in range(60))
    return traces.written(tmp_path, arrivals, output_tokens=[3 + k % 17 for k in range(60)])


def advised(*arguments: object, code: int = 0) -> dict[str, Any]:
    ran = command.run("advise", *arguments, "--draws", 3, "--json")
    assert ran.returncode == code, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def test_the_advised_setting_holds_and_the_present_one_is_told_not_to(bursty: Path) -> None:
    found = advised(bursty, "--latency-budget", "800ms", "--present", "--policy serial")
    assert found["advised"]["holds"]
    assert found["advised"]["tail_s"] <= 0.8
    assert not found["present"]["holds"]
    assert found["certainty"]["draws"] == 3
    assert found["flags"].startswith("--policy continuous")
    assert [one["server"] for one in found["elsewhere"]] == ["Triton", "Ray Serve", "vLLM", "TGI"]
    by_size = {fill["max_batch"]: fill for fill in found["formula"]["busy"]}
    assert by_size[4]["wait_s"] == pytest.approx(4 / found["rates"]["busy"])


def test_the_page_of_text_shows_the_arithmetic_and_the_flags(bursty: Path) -> None:
    ran = command.run(
        "advise", bursty, "--latency-budget", "800ms", "--draws", 2, "--present", "--policy serial"
    )
    assert ran.returncode == 0, ran.stderr
    for words in (
        "8 / ",
        "Little's law",
        "advised (holds)",
        "how sure",
        "the present setting does not hold",
        "vLLM",
    ):
        assert words in ran.stdout, words


def test_a_run_is_advised_on_as_it_was_sent_with_its_own_setting_as_the_present_one(
    bursty: Path, tmp_path: Path
) -> None:
    simulated = command.run(
        "simulate",
        bursty,
        "--policy",
        "fixed-window",
        "--window-ms",
        "200",
        "--out-dir",
        tmp_path,
        "--name",
        "now",
    )
    assert simulated.returncode == 0, simulated.stderr
    (run,) = tmp_path.glob("now-*")
    found = advised(run, "--latency-budget", "800ms")
    assert found["present"]["flags"].startswith("--policy fixed-window --max-batch-size 8 --window-ms 200")
    mine = json.loads((run / "report.json").read_text())["windows"][0]["metrics"]["latency"]
    assert found["present"]["tail_s"] == pytest.approx(mine["p99"], rel=1e-6)


def test_where_nothing_can_hold_that_is_said(bursty: Path) -> None:
    found = advised(bursty, "--latency-budget", "20ms", code=1)
    assert not found["advised"]["holds"]


def test_the_advice_is_checked_by_replay_and_kept(bursty: Path, tmp_path: Path) -> None:
    found = advised(
        bursty, "--latency-budget", "20s", "--num-requests", 10, "--no-inject-peak", "--verify", "--verify-runs", 1,
        "--serve", "--preset tiny --timeout none", "--present", "--policy serial", "--alternatives", 1,
        "--max-lateness", "30s", "--out-dir", tmp_path / "out",
    )  # fmt: skip
    assert {row["target"]: row["limits_held"] for row in found["verified"]} == {
        "advised": 1,
        "present": 1,
        "alternative 1": 1,
    }
    (folder,) = (tmp_path / "out").glob("advice-experiment-*")
    assert len(json.loads((folder / "experiment.json").read_text())["made"]) == 3


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--latency-budget", "0"], "--latency-budget"),
        (["--latency-budget", "soon"], "--latency-budget"),
        (["--latency-budget", "1s", "--policy", "best"], "--policy"),
        (["--latency-budget", "1s", "--serve", "--preset huge"], "--preset"),
        (["--latency-budget", "1s", "--percentile", "97", "--verify", "--draws", "1"], "--percentile"),
    ],
)
def test_wrong_use_is_told_in_one_line(bursty: Path, arguments: list[str], named: str) -> None:
    ran = command.run("advise", bursty, *arguments)
    assert ran.returncode == 2
    assert named in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_trace_too_short_for_the_doubled_peak_is_advised_on_without_it(count: int, tmp_path: Path) -> None:
    short = traces.written(tmp_path, [0.1 * k for k in range(count)])
    ran = command.run("advise", short, "--latency-budget", "800ms", "--draws", 2, "--json")
    assert ran.returncode == 0, ran.stderr
    assert "without the doubled peak" in ran.stderr
    asked = command.run("advise", short, "--latency-budget", "800ms", "--inject-peak")
    assert asked.returncode == 2
    assert "does not fit" in asked.stderr


def test_what_weakens_the_advice_is_told(bursty: Path) -> None:
    found = advised(
        bursty, "--latency-budget", "10s", "--num-requests", 20, "--no-inject-peak", "--policy", "continuous"
    )
    assert any("20 requests are few" in note for note in found["notes"])
    assert any("gives up after 3.00 s" in note for note in found["notes"])
    quiet = advised(
        bursty, "--latency-budget", "10s", "--percentile", 50, "--max-batch", 8, "--serve", "--timeout none"
    )
    assert quiet["notes"] == []
    assert 0 < quiet["alone_s"] <= quiet["advised"]["tail_s"]


def test_of_a_long_trace_the_busiest_stretch_is_searched(tmp_path: Path) -> None:
    long = traces.written(tmp_path, [0.5 * k for k in range(10_001)], output_tokens=[3] * 10_001)
    told = ("--latency-budget", "5s", "--draws", 1, "--policy", "serial", "--json")
    ran = command.run("advise", long, *told, "--no-inject-peak")
    assert ran.returncode == 0, ran.stderr
    assert "10,001 requests are more than it takes" in ran.stderr
    asked = command.run("advise", long, *told, "--busiest", "60s")
    assert asked.returncode == 0, asked.stderr
    assert "more than it takes" not in asked.stderr


def test_a_budget_that_nothing_keeps_is_said_so(bursty: Path) -> None:
    ran = command.run("advise", bursty, "--latency-budget", "1ms", "--draws", 2)
    assert ran.returncode == 1
    assert "does NOT hold" in ran.stdout
    assert "no setting can hold it: p99 is" in ran.stdout
    assert "it holds on 0 of 2" in ran.stdout
    assert "nothing that waits comes out in time" in ran.stdout
    assert "slower" not in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--present", "--policy foo"], "--present: "),
        (["--present", "--policy continuous --enable-chunked-prefill"], "chunked-prefill is not simulated"),
        (["--serve", "--presett tiny"], "--serve: "),
        (["--verify", "--percentile", "75"], "--percentile 75"),
        (["--latency-budget", "800"], "--latency-budget"),
        (["--cost-model", "nowhere.toml"], "nowhere.toml"),
        (["--fit", "nowhere.parquet"], "nowhere.parquet"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_before_anything_is_simulated(
    arguments: list[str], named: str, bursty: Path
) -> None:
    ran = command.run("advise", bursty, "--latency-budget", "800ms", *arguments)
    assert ran.returncode == 2
    assert named in ran.stderr
    assert "simulating" not in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_run_shares_its_limits_and_its_preprocessing_with_what_is_advised(
    bursty: Path, tmp_path: Path
) -> None:
    flags = "--policy serial --preprocess-ms 20 --timeout none"
    ran = command.run("simulate", bursty, f"--serve={flags}", "--out-dir", tmp_path)
    assert ran.returncode == 0, ran.stderr
    (run,) = tmp_path.glob("*-simulated-*")
    found = advised(run, "--latency-budget", "2s")
    assert found["flags"].startswith("--timeout none --preprocess-ms 20.0 --policy ")
    assert found["present"]["flags"].startswith("--policy serial")
    assert "--pipeline inline" in found["present"]["flags"]


def test_a_check_that_is_stopped_keeps_its_runs_and_can_be_gone_on_with(tmp_path: Path) -> None:
    short = traces.written(tmp_path, [0.05 * k for k in range(30)])
    process = command.start(
        "advise", short, "--latency-budget", "5s", "--draws", 1, "--verify", "--verify-runs", 3,
        "--policy", "serial", "--serve", "--preset tiny", "--max-lateness", "30s", "--out-dir", tmp_path / "out",
        "--json",
    )  # fmt: skip
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        found = list((tmp_path / "out").glob("advice-experiment-*/experiment.json"))
        if found and json.loads(found[0].read_text())["made"]:
            break
        assert process.poll() is None, process.communicate()[1].decode()
        time.sleep(0.02)
    # One that comes in the last moment of a run may find nobody who waits for it; a user presses again.
    for _ in range(20):
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=5)
            break
        except subprocess.TimeoutExpired:
            continue
    assert process.returncode == 130
    (folder,) = (tmp_path / "out").iterdir()
    assert f"--resume {folder}" in err.decode()
    document = json.loads(out)
    assert document["verified"][0]["runs"] < 3
    again = command.run("experiment", "--resume", folder, "--json", "--no-html")
    assert again.returncode == 0, again.stderr
    assert [row["runs"] for row in json.loads(again.stdout)["rows"]] == [3]
