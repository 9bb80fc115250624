"""More processes give the same trace as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadgen.errors import RecordError
from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.settings import RecordSettings

SETTINGS = RecordSettings(
    time_field="t",
    length_fields={"input_tokens": "in"},
    status_field="code",
    model_field="m",
    session_field="s",
)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadgen.trace.source_stream._BLOCK_BYTES", 64 << 10)


def jsonl(path: Path, count: int = 20_000) -> Path:
    lines = []
    for row in range(count):
        moment = 1_700_000_000_000 + (row * 7919) % 100_000
        lines.append(
            json.dumps({"t": moment, "in": row, "code": 200, "m": f"m{row % 3}", "s": f"user-{row % 50}"})
        )
        if row % 1000 == 999:
            lines.append("Traceback (most recent call last):")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def nginx(path: Path, count: int = 10_000) -> Path:
    lines = []
    for row in range(count):
        verb = "POST" if row % 5 else "GET"
        lines.append(
            f'192.0.2.7 - - [25/Oct/2026:02:00:01 +0100] "{verb} /v1 HTTP/1.1" 200 5 "-" "d" '
            f"rt=1.5 msec={1_792_890_001 + row % 97}.{row % 1000:03d} rl={row} bs=7"
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def found(recording: Recording) -> object:
    fidelity = recording.fidelity
    return recording.trace.trace_id, fidelity, recording.trace.metadata.counts


@pytest.mark.parametrize(("write", "format_name"), [(jsonl, "jsonl"), (nginx, "nginx")])
def test_two_workers_read_what_one_reads(tmp_path: Path, write: object, format_name: str) -> None:
    path = write(tmp_path / "log")  # type: ignore[operator]  # one of the two above
    settings = SETTINGS if format_name == "jsonl" else RecordSettings()
    one, two = (found(record_logs([path], format_name, settings, num_workers=number)) for number in (1, 2))
    assert one == two


def test_a_log_that_cannot_be_read_ends_in_one_line_from_a_worker_too(tmp_path: Path) -> None:
    path = jsonl(tmp_path / "log")
    with path.open("a", encoding="utf-8") as file:
        file.write('{"t": "2026-10-25 00:59:58", "in": 1}\n')
    with pytest.raises(RecordError, match=r"log:20021: the stamp .* has no zone") as caught:
        record_logs([path], "jsonl", SETTINGS, num_workers=2)
    assert caught.value.hint is not None and "--zone" in caught.value.hint


def test_stamps_of_a_zone_with_summer_time_are_read_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    hours = ["01:30", "02:30", "02:10", "02:50", "03:10"]
    texts = [f'{{"t": "2026-10-25 {hour}:00", "in": 1}}' for hour in hours for _ in range(6000)]
    path.write_text("\n".join(texts) + "\n", encoding="utf-8")
    settings = RecordSettings(time_field="t", zone="Europe/Berlin", length_fields={"input_tokens": "in"})
    one, two = (found(record_logs([path], "jsonl", settings, num_workers=number)) for number in (1, 2))
    assert one == two
