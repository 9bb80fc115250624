"""Small logs for tests, recorded as a file would be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.settings import RecordSettings


def recorded(folder: Path, text: str, format_name: str = "auto", **options: Any) -> Recording:
    """What a log of this text holds."""
    path = folder / "a.log"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    return record_logs([path], format_name, RecordSettings(**options))


def rows(recording: Recording) -> list[dict[str, Any]]:
    """The requests in order of arrival; `unix_ns` is each one's moment, or its distance from the first."""
    trace = recording.trace
    origin = trace.metadata.origin_unix_ns or 0
    return [{**row, "unix_ns": origin + row["arrival_ns"]} for row in trace.table.to_pylist()]


def counts(recording: Recording) -> tuple[int, int, int]:
    """Requests, other and malformed lines."""
    fidelity = recording.fidelity
    return fidelity.num_requests, fidelity.num_other, fidelity.num_malformed
