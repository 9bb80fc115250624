"""`loadgen record` and `loadgen trace`, as processes: exit codes, one-line errors, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest

REPO = Path(__file__).resolve().parents[2]
SAMPLE = [str(REPO / "traces" / name) for name in ("sample-access.log", "sample-access.log.1")]


def loadgen(
    *arguments: str, cwd: Path, stdin: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "loadgen", *arguments],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        env=os.environ | {"COLUMNS": "80"} | environment,
        check=False,
        timeout=60,
    )


def strict(text: bytes) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_rotated_sample_becomes_a_trace_that_info_shows(tmp_path: Path) -> None:
    recorded = loadgen("record", *SAMPLE, "-o", "day.parquet", "--json", cwd=tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    document = strict(recorded.stdout)
    assert document["rows"] == 250
    assert (document["fidelity"]["other"], document["fidelity"]["malformed"]) == (7, 1)
    shown = loadgen("trace", "info", "day.parquet", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert shown.returncode == 0, shown.stderr
    assert b"250 requests" in shown.stdout
    assert b"\x1b" not in shown.stdout
    assert max(len(line) for line in shown.stdout.splitlines()) <= 80


def test_standard_input_is_a_log_too(tmp_path: Path) -> None:
    log = b"".join(Path(name).read_bytes() for name in SAMPLE)
    recorded = loadgen("record", "-", "--format", "nginx", "-o", "day.parquet", cwd=tmp_path, stdin=log)
    assert recorded.returncode == 0, recorded.stderr
    assert (tmp_path / "day.parquet").exists()


@pytest.mark.parametrize(
    ("content", "arguments", "reason"),
    [
        (b"", ("--format", "nginx"), b"0 usable of 0"),
        (b"no log\nat all\n", ("--format", "nginx"), b"0 usable of 2"),
        (b'{"t": 1}\n', ("--format", "jsonl"), b"--time"),
        (b"\x1f\x8b\x08broken", ("--format", "nginx"), b"cannot be read"),
    ],
)
def test_unusable_log_ends_with_2_one_line_and_no_file(
    tmp_path: Path, content: bytes, arguments: tuple[str, ...], reason: bytes
) -> None:
    """F47"""
    (tmp_path / "bad.log").write_bytes(content)
    result = loadgen("record", "bad.log", *arguments, "-o", "out.parquet", cwd=tmp_path)
    assert result.returncode == 2
    assert result.stdout == b""
    assert reason in result.stderr
    assert b"Traceback" not in result.stderr
    assert result.stderr.count(b"error:") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["bad.log"]


def test_existing_trace_is_not_overwritten_unless_forced(tmp_path: Path) -> None:
    (tmp_path / "day.parquet").write_bytes(b"precious")
    refused = loadgen("record", *SAMPLE, "-o", "day.parquet", cwd=tmp_path)
    assert refused.returncode == 2
    assert (tmp_path / "day.parquet").read_bytes() == b"precious"
    assert loadgen("record", *SAMPLE, "-o", "day.parquet", "--force", cwd=tmp_path).returncode == 0


def test_killed_recording_leaves_nothing_under_the_final_name(tmp_path: Path) -> None:
    """F48"""
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "loadgen", "record", "-", "--format", "nginx", "-o", "day.parquet"],
        cwd=tmp_path,
        stdin=read_end,
        stderr=subprocess.DEVNULL,
    )
    os.close(read_end)
    os.write(write_end, Path(SAMPLE[0]).read_bytes())
    time.sleep(0.5)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    os.close(write_end)
    assert not (tmp_path / "day.parquet").exists()


def test_cut_trace_is_refused_with_2_in_one_line(tmp_path: Path) -> None:
    """F48"""
    assert loadgen("record", *SAMPLE, "-o", "day.parquet", cwd=tmp_path).returncode == 0
    whole = (tmp_path / "day.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    result = loadgen("trace", "info", "cut.parquet", cwd=tmp_path)
    assert result.returncode == 2
    assert b"cut.parquet" in result.stderr
    assert b"Traceback" not in result.stderr


def test_converted_units_are_told_with_span_and_rate_and_go_back_out(tmp_path: Path) -> None:
    """F45"""
    rows = [
        {"timestamp": stamp, "input_length": 5, "output_length": 2, "hash_ids": [0]}
        for stamp in (0, 1000, 2000)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "m.jsonl").write_text(text, encoding="utf-8")
    result = loadgen("trace", "convert", "m.jsonl", "-o", "m.parquet", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert b"3 requests over 2.00 s, 1 requests/s" in result.stderr
    assert b"read as ms" in result.stderr
    back = loadgen("trace", "convert", "m.parquet", "--to", "mooncake", "-o", "back.jsonl", cwd=tmp_path)
    assert back.returncode == 0, back.stderr
    assert [json.loads(line) for line in (tmp_path / "back.jsonl").read_text().splitlines()] == rows


def test_malformed_text_is_shown_only_on_demand(tmp_path: Path) -> None:
    text = '{"t": 1700000000, "in": 1}\n{"t": "SECRET prompt", "in": 1}\n'
    (tmp_path / "a.jsonl").write_text(text, encoding="utf-8")
    options = ("record", "a.jsonl", "--time", "t", "--input-tokens", "in", "-o", "a.parquet", "--force")
    assert b"SECRET" not in loadgen(*options, cwd=tmp_path).stderr
    assert b"SECRET" in loadgen(*options, "--show-lines", cwd=tmp_path).stderr


def test_a_log_without_input_lengths_is_recorded_with_a_warning_and_not_planned(tmp_path: Path) -> None:
    line = '192.0.2.7 - - [25/Oct/2026:02:00:01 +0100] "POST /v1/chat HTTP/1.1" 200 812 "-" "demo/1"\n'
    (tmp_path / "a.log").write_text(line * 3, encoding="utf-8")
    options = ("record", "a.log", "--format", "nginx", "-o", "a.parquet")
    assert b"--accept-completion-times" in loadgen(*options, cwd=tmp_path).stderr
    recorded = loadgen(*options, "--accept-completion-times", cwd=tmp_path)
    assert recorded.returncode == 0, recorded.stderr
    assert b"no input lengths" in recorded.stderr
    assert loadgen("trace", "info", "a.parquet", cwd=tmp_path).returncode == 0
    refused = loadgen("plan", "a.parquet", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, b"")
    assert b"no input lengths" in refused.stderr
