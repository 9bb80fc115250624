"""Which requests are kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import RecordError, UsageError
from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.selection import Selection
from loadgen.record.settings import RecordSettings
from support import command

S = 10**9
START = 1_700_000_000


def log(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "app.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def record(folder: Path, rows: list[dict[str, Any]], selection: Selection) -> Recording:
    settings = RecordSettings(
        time_field="t", length_fields={"input_tokens": "in"}, status_field="code", model_field="model",
        session_field="user",
    )  # fmt: skip
    return record_logs([log(folder, rows)], "jsonl", settings, selection)


def kept(recording: Recording) -> list[int]:
    return list(recording.trace.table.column("input_tokens").to_pylist())


ROWS: list[dict[str, Any]] = [
    {"t": START + 0, "in": 0, "code": 200, "model": "demo-7b", "user": "a"},
    {"t": START + 1, "in": 1, "code": 429, "model": "demo-7b", "user": "b"},
    {"t": START + 2, "in": 2, "code": 204, "model": "demo-70b", "user": "a"},
    {"t": START + 3, "in": 3, "code": None, "model": None, "user": None},
    {"t": START + 4, "in": 4, "code": 503, "model": "other", "user": "c"},
]


@pytest.mark.parametrize(
    ("selection", "rows"),
    [
        (Selection(), [0, 1, 2, 3, 4]),
        (Selection(since_ns=(START + 1) * S, until_ns=(START + 3) * S), [1, 2]),
        (Selection(statuses=("2xx",)), [0, 2]),
        (Selection(statuses=("429", "5xx")), [1, 4]),
        (Selection(models=("demo-7b",)), [0, 1]),
        (Selection(models=("demo-*",)), [0, 1, 2]),
        (Selection(models=("demo-*",), statuses=("2xx",)), [0, 2]),
        (Selection(busiest_ns=2 * S), [0, 1]),
        (Selection(busiest_ns=2 * S, since_ns=(START + 3) * S), [3, 4]),
        (Selection(session_share=1.0), [0, 1, 2, 3, 4]),
    ],
)
def test_selections(tmp_path: Path, selection: Selection, rows: list[int]) -> None:
    recording = record(tmp_path, ROWS, selection)
    assert kept(recording) == rows
    fidelity = recording.fidelity
    assert fidelity.num_requests == len(rows)
    assert fidelity.num_requests + fidelity.num_other == len(ROWS)
    if selection != Selection() and len(rows) < len(ROWS):
        assert any("count as other" in text for text in fidelity.assumptions)


def test_sessions_are_sampled_whole_and_the_same_ones_every_time(tmp_path: Path) -> None:
    rows = [{"t": START + row, "in": row, "user": f"user-{row % 500}"} for row in range(2000)]
    first = kept(record(tmp_path, rows, Selection(session_share=0.2)))
    assert first == kept(record(tmp_path, rows, Selection(session_share=0.2)))
    # 500 sessions of 4 rows each: about a fifth, four standard deviations allowed.
    users = {row % 500 for row in first}
    assert len(first) == 4 * len(users)
    assert 64 < len(users) < 136
    # A larger share keeps those of the smaller.
    assert set(first) <= set(kept(record(tmp_path, rows, Selection(session_share=0.5))))


def test_requests_without_a_session_are_sampled_one_by_one(tmp_path: Path) -> None:
    rows = [{"t": START + row, "in": row, "user": None if row % 2 else ""} for row in range(1000)]
    assert 140 < len(kept(record(tmp_path, rows, Selection(session_share=0.2)))) < 260


def test_what_the_log_does_not_tell_cannot_be_asked_for(tmp_path: Path) -> None:
    settings = RecordSettings(time_field="t", length_fields={"input_tokens": "in"})
    path = log(tmp_path, ROWS)
    for selection, option in (
        (Selection(statuses=("2xx",)), "--status"),
        (Selection(models=("m",)), "--model"),
        (Selection(session_share=0.5), "--sample-sessions"),
    ):
        with pytest.raises(RecordError, match=f"{option}: this log does not tell"):
            record_logs([path], "jsonl", settings, selection)


@pytest.mark.parametrize(
    "options", [{"statuses": ("20",)}, {"statuses": ("2x0",)}, {"session_share": 0.0}, {"busiest_ns": 0}]
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        Selection(**options)


def test_a_selection_that_keeps_nothing_says_so(tmp_path: Path) -> None:
    path = log(tmp_path, ROWS)
    ran = command.run(
        "record", path, "--time", "t", "--input-tokens", "in", "--status-field", "code", "--status", "418",
        "-o", tmp_path / "none.parquet",
    )  # fmt: skip
    assert ran.returncode == 2
    assert "0 of 5 requests are left by --status" in ran.stderr
    assert not (tmp_path / "none.parquet").exists()
