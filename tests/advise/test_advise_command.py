"""`loadgen advise` as a user runs it."""

from __future__ import annotations

import json
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
