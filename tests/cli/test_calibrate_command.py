"""`loadgen calibrate` as a user runs it, and what `replay` makes of it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from loadgen.replay.calibration import Calibration, Ceiling
from loadgen.replay.calibration_file import host_facts, keep
from loadgen.testing import FakeTarget, chat_stream
from support import command, traces


def cache(folder: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(folder)}


def test_a_quick_one_measures_two_lengths_and_keeps_nothing(tmp_path: Path) -> None:
    shown = command.run("calibrate", "--quick", "--json", env=cache(tmp_path))
    assert shown.returncode == 0, shown.stderr
    figures: dict[str, Any] = json.loads(shown.stdout)
    assert [ceiling["num_events"] for ceiling in figures["ceilings"]] == [1, 4]
    assert 0 <= figures["floor_p50_s"] <= figures["floor_p99_s"]
    assert str(tmp_path) not in shown.stdout
    assert "calibrating: streams of 4 events" in shown.stderr
    assert not any(tmp_path.iterdir())


def test_ctrl_c_ends_it_and_leaves_no_process_behind(tmp_path: Path) -> None:
    process = command.start("calibrate", env=cache(tmp_path))
    assert process.stderr is not None
    process.stderr.readline()  # it has begun to send
    children = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert children
    for _ in range(100):
        if not any(Path(f"/proc/{pid}").exists() for pid in children):
            break
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)
    assert not any(tmp_path.iterdir())


def test_a_transport_that_does_not_exist_is_refused() -> None:
    refused = command.run("calibrate", "--transport", "carrier-pigeon")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: --transport is 'carrier-pigeon'")


def test_replay_sets_the_plan_beside_the_calibration_before_it_sends(tmp_path: Path) -> None:
    keep(
        Calibration(
            host_facts(), "2026-12-01T10:00:00+00:00", 1, "fast", False, 0.0001, 0.0005,
            (Ceiling(1, 20.0, True), Ceiling(32, 20.0, True)),
        ),
        tmp_path / "cache" / "loadgen" / "calibration.json",
    )  # fmt: skip
    trace = traces.written(tmp_path, [0.0] * 31)
    with FakeTarget(lambda _: chat_stream(2, first_s=0.0, gap_s=0.0)) as fake:
        run = command.run("replay", trace, "--url", fake.url, folder=tmp_path, env=cache(tmp_path / "cache"))
    lines = run.stderr.splitlines()
    (told,) = [place for place, line in enumerate(lines) if "can send honestly" in line]
    (sending,) = [place for place, line in enumerate(lines) if line.startswith("sending to")]
    assert lines[told].startswith("your plan's highest second is 1.6 times what this machine")
    assert told < sending


@pytest.mark.parametrize("flags", [[], ["--yes"]])
def test_much_load_at_a_public_host_is_asked_for_on_a_terminal(tmp_path: Path, flags: list[str]) -> None:
    # Through a proxy the address is the host's name, which may be anybody's.
    trace = traces.written(tmp_path, [0.0] * 51)
    theirs, ours = pty.openpty()
    with FakeTarget(lambda _: chat_stream(2, first_s=0.0, gap_s=0.0)) as fake:
        process = subprocess.Popen(
            [sys.executable, "-m", "loadgen", "replay", str(trace), "--url", "http://model.invalid", "--model", "m",
             "--transport", "httpx", "--proxy", fake.url, "--timeout", "5s", *flags],
            stdin=ours, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=tmp_path,
            env={**os.environ, **cache(tmp_path)},
        )  # fmt: skip
        _, err = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)
    asked = b"--yes" in err
    assert asked is not bool(flags)
    assert (process.returncode == 2) is asked
    assert (tmp_path / "reports").exists() is not asked
