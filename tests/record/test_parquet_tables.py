"""Parquet tables of any column names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadgen.errors import RecordError
from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.settings import RecordSettings

START_NS = 1_704_067_200_123_456_789  # 2024-01-01T00:00:00.123456789Z
EXACT = [START_NS, START_NS + 250_000_000, START_NS + 500_000_000]
STEPS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def record_columns(tmp_path: Path, stamps: pa.Array, **options: Any) -> Recording:
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"t": stamps, "in": [1, 2, 3], "text": ["SECRET"] * 3}), path)
    settings = RecordSettings(time_field="t", length_fields={"input_tokens": "in"}, **options)
    return record_logs([path], "auto", settings)


@pytest.mark.parametrize("unit", STEPS)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp with a zone", "number"])
def test_one_instant_in_every_column_type_agrees_to_its_unit(tmp_path: Path, unit: str, kind: str) -> None:
    """F49"""
    numbers = pa.array([moment // STEPS[unit] for moment in EXACT], pa.int64())
    options: dict[str, Any] = {}
    if kind == "timestamp":
        numbers, options = numbers.cast(pa.timestamp(unit)), {"zone": "UTC"}
    elif kind == "timestamp with a zone":
        numbers = numbers.cast(pa.timestamp(unit, "Europe/Berlin"))
    recording = record_columns(tmp_path, numbers, **options)
    origin = recording.trace.metadata.origin_unix_ns
    assert origin is not None
    for moment, arrival_ns in zip(EXACT, recording.trace.arrival_ns.tolist(), strict=True):
        assert origin + arrival_ns == moment // STEPS[unit] * STEPS[unit]
    assert "SECRET" not in str(recording.trace.table.to_pylist())


def test_timestamps_without_a_zone_are_refused(tmp_path: Path) -> None:
    """F50"""
    with pytest.raises(RecordError, match=r"table\.parquet:1: .* has no zone"):
        record_columns(tmp_path, pa.array(EXACT, pa.timestamp("ns")))


def test_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no column 'took'") as caught:
        record_columns(tmp_path, pa.array(EXACT), duration_field="took", duration_unit="s")
    assert caught.value.hint == "there are: t, in, text"


def test_table_without_rows_is_refused(tmp_path: Path) -> None:
    """F47"""
    path = tmp_path / "empty.parquet"
    pq.write_table(pa.table({"t": pa.array([], pa.int64()), "in": pa.array([], pa.int64())}), path)
    with pytest.raises(RecordError, match=r"empty\.parquet: .*0 usable of 0"):
        record_logs([path], "auto", RecordSettings(time_field="t", length_fields={"input_tokens": "in"}))


def test_cut_file_is_refused_in_one_line(tmp_path: Path) -> None:
    """F48"""
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"t": EXACT, "in": [1, 2, 3]}), path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RecordError, match=r"table\.parquet: no readable Parquet"):
        record_logs([path], "auto", RecordSettings(time_field="t", length_fields={"input_tokens": "in"}))
