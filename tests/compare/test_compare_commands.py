"""`loadgen compare` and `loadgen ab` as processes, with real sockets for the latter."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import typer

from loadgen.cli.compare import spread_to
from loadgen.cli.main import VERBS, make_app
from loadgen.testing import FakeTarget, chat_stream
from support import command, traces
from support import compared_runs as sides
from support.proxy import ForwardProxy

WHOLE: Any = typer.main.get_command(make_app(VERBS))
SHORT = ("--max-lateness", "10s", "--ignore-eos")


@pytest.fixture(scope="module")
def slower(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], list[Path]]:
    """Four runs a side; the candidate is 30 % slower."""
    base, candidate = sides.interleaved(
        tmp_path_factory.mktemp("runs"), (0.1, 0.101, 0.099, 0.1), (0.13, 0.131, 0.129, 0.1305)
    )
    return [run.folder.path for run in base], [run.folder.path for run in candidate]


def compare(base: Sequence[Path], to: Sequence[Path], *options: object) -> subprocess.CompletedProcess[str]:
    return command.run("compare", *base, "--to", *to, *options)


def test_worse_is_exit_code_1_and_fits_80_columns(slower: tuple[list[Path], list[Path]]) -> None:
    ran = compare(*slower)
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("WORSE in latency")
    assert "4 pairs of runs" in ran.stdout
    assert max(map(len, ran.stdout.splitlines()[1:])) <= 80
    assert "\x1b" not in ran.stdout


def test_one_run_a_side_is_exit_code_3(slower: tuple[list[Path], list[Path]]) -> None:
    ran = compare(slower[0][:1], slower[1][:1])
    assert ran.returncode == 3, ran.stderr
    assert "evidence weak" in ran.stdout
    assert "WORSE" not in ran.stdout


def test_json_markdown_and_junit_tell_the_same(slower: tuple[list[Path], list[Path]], tmp_path: Path) -> None:
    files = (tmp_path / "c.md", tmp_path / "c.xml", tmp_path / "c.html")
    gate = ("--fail-on", "latency p50 > +5%", "--fail-on", "error_rate > +50%")
    ran = compare(*slower, "--json", "--markdown", files[0], "--junit", files[1], "--html", files[2], *gate)
    assert ran.returncode == 1, ran.stderr
    document = json.loads(ran.stdout, parse_constant=pytest.fail)
    assert [gate["state"] for gate in document["gates"]] == ["broken", "held"]
    assert files[0].read_text().startswith("### loadgen: GATE BROKEN: latency p50 \\> +5%")
    assert "GATE BROKEN: latency p50 &gt; +5%" in files[2].read_text()
    suite = ET.parse(files[1]).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "1", "0")


def test_gates_of_a_file_are_held(slower: tuple[list[Path], list[Path]], tmp_path: Path) -> None:
    path = tmp_path / "gates.toml"
    path.write_text('fail_on = ["latency p50 > +60%"]')
    ran = compare(*slower, "--gates", path)
    assert (ran.returncode, ran.stdout.splitlines()[0]) == (0, "gates held")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--fail-on", "ttft > 5%"), "which value of ttft"),
        (("--margin", "5"), "no percentage"),
        (("--alpha", "80%"), "less than 50%"),
        (("--markdown", f"{__file__}/c.md"), "cannot be written"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    slower: tuple[list[Path], list[Path]], options: tuple[str, str], words: str
) -> None:
    ran = compare(*slower, *options)
    assert ran.returncode == 2
    assert words in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_run_given_twice_is_refused(slower: tuple[list[Path], list[Path]]) -> None:
    assert "given twice" in compare(slower[0], slower[0]).stderr


def test_other_schedules_are_exit_code_2_with_the_fields(tmp_path: Path) -> None:
    base = sides.run(tmp_path, sides.rows(0.1), minute=0)
    other = sides.run(tmp_path, sides.rows(0.1), minute=1, schedule_hash="other", seed=7)
    ran = compare([base.folder.path], [other.folder.path])
    assert ran.returncode == 2
    assert "schedule a=hash b=other; seed a=0 b=7" in ran.stderr
    assert "--override schedule --override seed" in ran.stderr


def test_an_interrupted_run_is_exit_code_4(tmp_path: Path) -> None:
    base = sides.run(tmp_path, sides.rows(0.1), minute=0)
    cut = sides.run(tmp_path, sides.rows(0.1), minute=1, status="interrupted")
    assert compare([base.folder.path], [cut.folder.path]).returncode == 4


def test_history_shows_each_figure(slower: tuple[list[Path], list[Path]]) -> None:
    ran = command.run("compare", "--history", slower[0][0].parent)
    assert ran.returncode == 0, ran.stderr
    assert "8 runs" in ran.stdout
    assert "latency p99" in ran.stdout


def test_each_run_after_to_belongs_to_the_candidate() -> None:
    given = ["a", "b", "--to", "c", "d", "--margin", "5%", "--json"]
    assert spread_to(given) == ["a", "b", "--to", "c", "--to", "d", "--margin", "5%", "--json"]
    assert spread_to(["--to=c", "d"]) == ["--to=c", "d"]


def trace(folder: Path) -> Path:
    return traces.written(folder, [0.02 * k for k in range(15)], output_tokens=[3] * 15)


def ab(path: Path, a: str, b: str, out: Path, *options: object) -> subprocess.CompletedProcess[str]:
    return command.run("ab", path, "--a", a, "--b", b, "--out-dir", out, *SHORT, *options)


def folder_in(out: Path) -> Path:
    (folder,) = out.iterdir()
    return folder


def test_ab_finds_a_slower_version_and_stops(tmp_path: Path) -> None:
    quick = FakeTarget(lambda _: chat_stream(3, first_s=0.02))
    slow = FakeTarget(lambda _: chat_stream(3, first_s=0.2))
    with quick, slow:
        ran = ab(
            trace(tmp_path),
            quick.url,
            slow.url,
            tmp_path / "out",
            "--max-pairs",
            "6",
            "--junit",
            tmp_path / "x.xml",
        )
    assert ran.returncode == 1, ran.stderr
    assert ran.stdout.startswith("WORSE in latency")
    told = re.findall(r"^pair (\d) \((A B|B A)\): latency mean \+", ran.stderr, re.MULTILINE)
    assert 2 <= len(told) < 6
    assert "stopped: decided" in ran.stderr
    document = json.loads((folder_in(tmp_path / "out") / "comparison.json").read_text())
    assert document["verdict"] == "worse"
    assert document["looks"] == 6
    assert (tmp_path / "x.xml").is_file()


def test_ab_of_one_server_is_never_worse_and_can_be_resumed(tmp_path: Path) -> None:
    with FakeTarget(lambda _: chat_stream(3, first_s=0.02)) as target:
        out = tmp_path / "out"
        first = ab(trace(tmp_path), target.url, target.url, out, "--max-pairs", "2", "--max-time", "1ms")
        # The first pair is always begun: nothing is known of its length.
        assert "stopped: max-time" in first.stderr
        folder = folder_in(out)
        again = command.run("ab", "--resume", folder, "--json")
        assert "going on after 1 pairs" in again.stderr
        document = json.loads(again.stdout)
        assert again.returncode in (0, 3)
        assert len(document["base"]) == len(document["candidate"]) == 2
        assert len(target.requests) == 4 * 15


def test_ab_keeps_what_it_has_at_ctrl_c(tmp_path: Path) -> None:
    with FakeTarget(lambda _: chat_stream(3, first_s=0.02)) as target:
        out = tmp_path / "out"
        process = command.start(
            "ab", trace(tmp_path), "--a", target.url, "--b", target.url, "--out-dir", out, *SHORT
        )
        until_s = time.monotonic() + 60
        while len(target.requests) < 32 and time.monotonic() < until_s:
            time.sleep(0.02)  # the second pair has begun
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    document = json.loads((folder_in(out) / "ab.json").read_text())
    assert document["ended"] == "interrupted"
    assert document["pairs"][0]["void"] is None
    assert document["pairs"][-1]["void"] == "it was interrupted"
    assert b"--resume" in err


def test_ab_starts_commands_and_stops_them(tmp_path: Path) -> None:
    server = tmp_path / "server.py"
    server.write_text(SERVER)
    text = f"{sys.executable} {server} {{port}}"
    ran = ab(trace(tmp_path), text, text, tmp_path / "out", "--max-pairs", "2", "--model", "m", "--no-stream")
    assert ran.returncode in (0, 1, 3), ran.stderr
    starts = (tmp_path / "starts").read_text().splitlines()
    assert len(starts) == 4
    for pid in starts:
        assert not Path(f"/proc/{pid}").exists()


def test_ab_keeps_no_secret(tmp_path: Path) -> None:
    with FakeTarget(lambda _: chat_stream(3)) as target:
        out = tmp_path / "out"
        ran = ab(trace(tmp_path), target.url, target.url, out, "--max-pairs", "2", "--api-key", "sk-secret-1")
    assert {request.headers["authorization"] for request in target.requests} == {"Bearer sk-secret-1"}
    assert "sk-secret-1" not in ran.stdout + ran.stderr
    for path in out.rglob("*.json"):
        assert "sk-secret-1" not in path.read_text(), path


def test_ab_sends_as_replay_does(tmp_path: Path) -> None:
    with FakeTarget(lambda _: chat_stream(3)) as target, ForwardProxy() as proxy:
        secret = proxy.url.replace("http://", "http://user:pass-word-1@")
        options = ("--transport", "httpx", "--proxy", secret, "--warmup-requests", "1", "--timeout-gap", "9s")
        out = tmp_path / "out"
        ran = ab(trace(tmp_path), target.url, target.url, out, "--max-pairs", "2", *options)
    assert ran.returncode in (0, 1, 3), ran.stderr
    assert sum(method == "POST" for method, _ in proxy.asked_for) == len(target.requests) == 4 * (15 + 1)
    assert "pass-word-1" not in ran.stdout + ran.stderr
    for path in out.rglob("*.json"):
        assert "pass-word-1" not in path.read_text(), path
    settings = json.loads((folder_in(out) / "ab.json").read_text())["settings"]["options"]
    assert (settings["transport"], settings["timeout_gap"]) == ("httpx", "9s")


def test_ab_has_every_option_of_how_replay_sends() -> None:
    parameters = {verb: {one.name for one in WHOLE.commands[verb].params} for verb in ("replay", "ab")}
    # Of one server, of one run, or of who watches it.
    of_replay = {"url", "serve", "unix_socket", "slo", "max_error_rate", "server_metrics", "gpu_telemetry"}
    of_replay |= {"abort_after", "yes", "ray", "records_to"}  # the last goes with --ray, which ab has not
    assert parameters["replay"] - parameters["ab"] - of_replay == set()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--a", "http://h:1", "--b", "http://h:1", "--proxy", "http://p:1"), "give --transport httpx"),
        (("--a", "http://h:1", "--b", "http://h:1", "--sessions", "x"), "--sessions is 'x'"),
        (("--a", "http://h:1"), "give a trace, --a and --b"),
        (("--a", "http://h:1", "--b", "server --port 1"), "command without {port}"),
        (("--resume", "."), "takes no TRACE"),
    ],
)
def test_ab_refuses_what_it_cannot_run(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    ran = command.run("ab", trace(tmp_path), *arguments)
    assert ran.returncode == 2
    assert words in ran.stderr


def test_ab_at_a_target_that_is_not_there_is_exit_code_5(tmp_path: Path) -> None:
    ran = ab(trace(tmp_path), "http://127.0.0.1:9", "http://127.0.0.1:9", tmp_path / "out")
    assert ran.returncode == 5
    assert "cannot connect" in ran.stderr


SERVER = """
import http.server, json, os, pathlib, sys

with open(pathlib.Path(__file__).parent / "starts", "a") as starts:
    print(os.getpid(), file=starts)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, document):
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.reply({})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "x"}
        choice = {"index": 0, "message": message, "finish_reason": "length"}
        self.reply({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 3}})

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
