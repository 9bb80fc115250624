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
    assert [row["figures"]["failed"] + row["figures"]["rejected"] for row in document["rows"]] == [0, 0]
    assert "| few | serial |" in (tmp_path / "t.md").read_text()
    folder = folder_in(tmp_path / "out")
    for run in runs_in(folder):  # looked at by itself, it is held to the same
        again = command.run("report", folder / run, "--json")
        assert again.returncode == 1, again.stderr
        assert [one["limit"] for one in json.loads(again.stdout)["limits"]][:1] == ["latency p99 < 0.001ms"]


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


# A server that answers /v1/models and streams one token; after DIES requests it is gone.
FAKE = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    count = 0

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200 if self.path == "/v1/models" else 404)
        self.end_headers()
        self.wfile.write(json.dumps({"data": [{"id": "m"}]}).encode())

    def do_POST(self):
        Handler.count += 1
        if Handler.count > int(sys.argv[2]):
            os._exit(1)
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        chunk = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]}
        self.wfile.write(f"data: {json.dumps(chunk)}\\n\\ndata: [DONE]\\n\\n".encode())

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def with_targets(folder: Path, **commands: str) -> Path:
    """An experiment of these targets: commands with the fake server in the place of SERVER."""
    import sys

    (folder / "fake.py").write_text(FAKE)
    server = f"{sys.executable} {folder / 'fake.py'}"
    targets = [
        f"[[target]]\nname = '{name}'\ncommand = '{text.replace('SERVER', server)}'\n"
        for name, text in commands.items()
    ]
    loads = "[[load]]\nname = 'few'\nnum_requests = 4\n\n[[load]]\nname = 'more'\nnum_requests = 8\n"
    path = folder / "bench.toml"
    path.write_text("\n".join([*targets, loads]))
    return path


def test_a_target_that_does_not_come_up_is_left_out_and_the_others_are_run(
    short: Path, tmp_path: Path
) -> None:
    import sys

    bench = with_targets(tmp_path, good="SERVER {port} 99", bad=f"{sys.executable} nowhere.py {{port}}")
    given = ["--trace", short, "--max-lateness", "30s", "--no-html", "--json"]
    ran = command.run("experiment", bench, *given, "--out-dir", tmp_path / "out")
    assert ran.returncode == 5, ran.stderr
    assert [(row["target"], row["load"]) for row in json.loads(ran.stdout)["rows"]] == [
        ("good", "few"),
        ("good", "more"),
    ]
    assert ran.stderr.count("before it was ready") == 1
    assert "2 runs lack, of bad" in ran.stderr
    assert f"--resume {folder_in(tmp_path / 'out')}" in ran.stderr


def test_a_target_that_dies_is_not_made_to_look_fast(short: Path, tmp_path: Path) -> None:
    bench = with_targets(tmp_path, dies="SERVER {port} 2")
    ran = command.run(
        "experiment", bench, "--trace", short, "--max-lateness", "30s", "--no-html", "--json",
        "--out-dir", tmp_path / "out",
    )  # fmt: skip
    figures = json.loads(ran.stdout)["rows"][1]["figures"]
    assert figures["failed"] >= 6
    # Requests are planned 0.03 s apart: 2 answers, over no less than the 7 gaps of the 8 planned.
    assert figures["throughput"] <= 2 / 0.21 + 0.01


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[[target]]\nname = 'a'\nserve = '--policy dynamc'\n", "target a: "),
        ("[[target]]\nname = 'a'\nserve = '--policy serial'\n[[load]]\nname='x'\nserve='--widow 3'", "a at x: "),
        ("[[target]]\nname = 'a'\ncommand = 'no-such-program {port}'\n", "no-such-program"),
        ("[[target]]\nname = 'a'\nserve = '--policy serial'\n[[load]]\nname='x'\nrequest_rate=-4", "load x: "),
        ("[send]\nworkers = 'two'\n[[target]]\nname = 'a'\nserve = '--policy serial'\n", "workers"),
        ("[send]\nworkers = 0\n[[target]]\nname = 'a'\nserve = '--policy serial'\n", "workers"),
        ("slo = ['latency << 3s']\n[[target]]\nname = 'a'\nserve = '--policy serial'\n", "latency << 3s"),
        ("trace = 'gone.parquet'\n[[target]]\nname = 'a'\nserve = '--policy serial'\n", "gone.parquet"),
        ("name = \n", "bench.toml"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_before_anything_runs_and_leaves_nothing(
    text: str, named: str, tmp_path: Path
) -> None:
    (tmp_path / "bench.toml").write_text(text)
    ran = command.run("experiment", tmp_path / "bench.toml", "--out-dir", tmp_path / "out")
    assert ran.returncode == 2
    assert named in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / "out").exists()


def test_what_is_gone_on_with_stays_what_it_was(short: Path, tmp_path: Path) -> None:
    bench = tmp_path / "bench.toml"
    bench.write_text("[[target]]\nname = 'a'\nserve = '--policy serial'\n")
    given = ["--trace", short, "--simulate", "--no-html", "--out-dir", tmp_path / "out"]
    assert command.run("experiment", bench, *given).returncode == 0
    folder = folder_in(tmp_path / "out")

    refused = command.run("experiment", "--resume", folder, "--repeats", 3)
    assert refused.returncode == 2
    assert "--repeats cannot be changed" in refused.stderr
    assert command.run("experiment", "--resume", folder, "--find-capacity").returncode == 2

    bench.write_text("[[target]]\nname = 'b'\nserve = '--policy serial'\n")
    again = command.run("experiment", "--resume", folder, "--no-html", "--json")
    assert again.returncode == 0
    assert "has changed since; this experiment goes on as it was" in again.stderr
    assert [row["target"] for row in json.loads(again.stdout)["rows"]] == ["a"]

    traces.written(short.parent, [0.03 * k for k in range(21)])
    changed = command.run("experiment", "--resume", folder, "--no-html")
    assert changed.returncode == 2
    assert "the trace, or how loads are made of it, has changed" in changed.stderr


def test_simulated_repeats_are_one_run_since_they_would_be_equal(tmp_path: Path) -> None:
    ran = command.run(
        "experiment", "concurrency", "--simulate", "--repeats", 3, "--no-html", "--json",
        "--only", "1 in flight", "--out-dir", tmp_path / "out",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert {row["runs"] for row in json.loads(ran.stdout)["rows"]} == {1}
