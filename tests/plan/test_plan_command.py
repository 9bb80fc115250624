"""`loadgen plan` as a user runs it: what it shows, writes and refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from loadgen.cli.plan import show_plan
from loadgen.plan.injection import Burst
from loadgen.plan.planner import plan
from loadgen.plan.schedule import read_schedule
from loadgen.plan.shape import Shape
from loadgen.plan.summary import summarise
from loadgen.trace.trace import Trace
from support import command, traces

GOLDEN = Path(__file__).parent / "golden"
# Pairs each 2 s over two minutes, and a busy second of six at 30 s.
MOMENTS = sorted([float(k) for k in range(0, 121, 2)] * 2 + [30.1, 30.2, 30.3, 30.4])
PEAK = ("--inject-peak", "--peak-at", "90s")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return traces.written(tmp_path_factory.mktemp("trace"), MOMENTS)


def strictly(text: str) -> dict[str, Any]:
    def refuse(name: str) -> None:
        raise ValueError(name)

    read: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return read


@pytest.mark.parametrize(
    ("encoding", "golden"), [("utf-8", "plan.txt"), ("ascii", "plan_ascii.txt"), ("cp1252", "plan_ascii.txt")]
)
def test_the_plan_looks_like_this_in_each_encoding(trace: Path, encoding: str, golden: str) -> None:
    # F83: a pipe, a narrow code page; no escape byte, at most 80 columns.
    environment = {"PYTHONIOENCODING": encoding, "COLUMNS": "80", "TERM": "dumb"}
    shown = command.run("plan", trace.name, *PEAK, folder=trace.parent, env=environment)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == (GOLDEN / golden).read_text(encoding="utf-8")
    assert "\x1b" not in shown.stdout
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80


def test_json_is_strict_and_agrees_with_the_written_schedule(trace: Path, tmp_path: Path) -> None:
    # F81
    path = tmp_path / "schedule.parquet"
    shown = command.run("plan", trace, *PEAK, "--json", "-o", path)
    figures, schedule = strictly(shown.stdout), read_schedule(path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert figures["requests"] == schedule.num_requests == len(MOMENTS) + figures["injected"]
    assert figures["schedule_hash"] == schedule.schedule_hash
    assert figures["shape"] == schedule.shape
    assert [window["label"] for window in figures["windows"]] == ["baseline", "peak-1", "recovery-1"]


def test_a_file_that_exists_is_kept_and_the_trace_above_all(trace: Path, tmp_path: Path) -> None:
    # F85
    before = trace.read_bytes()
    refused = command.run("plan", trace, "-o", trace, "--force")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert trace.read_bytes() == before
    kept = tmp_path / "kept.parquet"
    kept.write_text("mine")
    assert command.run("plan", trace, "-o", kept).returncode == 2
    assert kept.read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        # F47: a filter that removes all.
        (["--start", "9h"], "error: no request arrives within the chosen window; the trace is 2 min long"),
        (["--speedup", "-1"], "error: --speedup is -1"),  # F40
    ],
)
def test_what_cannot_be_planned_is_one_line_of_fact_and_one_of_advice(
    trace: Path, options: list[str], message: str
) -> None:
    refused = command.run("plan", trace, *options)
    fact, advice = refused.stderr.splitlines()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert fact.startswith(message)
    assert advice.startswith("hint:")


@pytest.mark.parametrize("verb", [("plan",), ("replay", "--url", "http://127.0.0.1:9")])
def test_arrivals_without_input_lengths_are_refused_with_advice(
    tmp_path: Path, verb: tuple[str, ...]
) -> None:
    path = traces.written(tmp_path, [0.0, 1.0], input_tokens=[None, None])
    refused = command.run(verb[0], path, *verb[1:], folder=tmp_path)
    fact, advice = refused.stderr.splitlines()
    assert (refused.returncode, refused.stdout) == (2, "")
    assert fact.startswith("error: the trace has no input lengths")
    assert advice.startswith("hint:")


def shown_of(trace: Trace, shape: Shape) -> str:
    written = io.StringIO()
    schedule = plan(trace, shape)
    show_plan(Console(file=written, width=80), schedule, summarise(schedule), title="t")
    return written.getvalue()


def test_a_trace_of_one_request_has_no_rate() -> None:
    shown = shown_of(traces.trace_of([5.0]), Shape())
    assert shown.startswith("t: 1 request within 1 ms\nlengths: 8 tokens in")


def test_many_injections_share_a_line() -> None:
    shown = shown_of(traces.trace_of(MOMENTS), Shape(burst=Burst(5, every_s=10.0)))
    assert "burst (11)" in shown
    assert len(shown.splitlines()) < 22


def test_help_teaches_by_examples_in_a_narrow_encoding() -> None:
    shown = command.run("plan", "--help", env={"PYTHONIOENCODING": "ascii", "COLUMNS": "80"})
    assert shown.returncode == 0
    for panel in ("Which part, how fast", "Injected load", "Lengths", "Examples: loadgen plan"):
        assert panel in shown.stdout
    assert "\x1b" not in shown.stdout
