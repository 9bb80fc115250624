"""Trace files: complete or refused in one line that names the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadgen.errors import TraceError
from loadgen.trace.assemble import assemble_trace
from loadgen.trace.parquet import read_trace, write_trace
from loadgen.trace.schema import METADATA_KEY, SCHEMA
from loadgen.trace.trace import SourceFile, Trace, TraceMetadata


def make_trace(num_rows: int = 200) -> Trace:
    moments = np.arange(num_rows, dtype=np.int64) * 7_000_001 + 1_700_000_000_123_456_789
    return assemble_trace(
        moments,
        {
            "input_tokens": list(range(1, num_rows + 1)),
            "output_tokens": [None if row % 3 else row for row in range(num_rows)],
            "model": ["demo" if row % 2 else None for row in range(num_rows)],
            "prefix_blocks": [[row, row + 1] for row in range(num_rows)],
        },
        TraceMetadata(
            origin_unix_ns=0,
            stamp_marks="arrival",
            arrival_from="t",
            sources=(SourceFile("a.log", 3, "ab"),),
            warnings=("one",),
            prefix_block_tokens=16,
        ),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "good.parquet"
    write_trace(make_trace(), path)
    return path


def rewrite(path: Path, **changes: Any) -> None:
    table = pq.read_table(path)
    document = json.loads(pq.read_metadata(path).metadata[METADATA_KEY]) | changes
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(document)}), path)


def test_round_trip_keeps_every_value_and_the_metadata(path: Path) -> None:
    """F49: one integer unit, named in the schema."""
    original, read = make_trace(), read_trace(path)
    assert read.table.equals(original.table)
    assert read.metadata == original.metadata
    assert read.trace_id == original.trace_id
    assert read.metadata.origin_unix_ns == 1_700_000_000_123_456_789


def test_arrivals_alone_are_a_trace(path: Path) -> None:
    moments = np.array([5, 7], dtype=np.int64)
    metadata = TraceMetadata(origin_unix_ns=None, stamp_marks="arrival", arrival_from="t")
    write_trace(assemble_trace(moments, {}, metadata), path)
    read = read_trace(path)
    assert read.arrival_ns.tolist() == [0, 2]
    assert not read.has_input_lengths


@pytest.mark.parametrize("kept", [0.5, -1, 4, 0])
def test_cut_file_is_refused_in_one_line_that_names_it(path: Path, kept: float) -> None:
    """F48"""
    whole = path.read_bytes()
    size = int(len(whole) * kept) if 0 < kept < 1 else int(kept)
    path.write_bytes(whole[:size])
    with pytest.raises(TraceError) as caught:
        read_trace(path)
    assert str(path) in caught.value.message
    assert "\n" not in caught.value.message


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        read_trace(tmp_path / "none.parquet")


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="a folder"):
        read_trace(tmp_path)


def test_foreign_parquet_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(TraceError, match="no loadgen trace") as caught:
        read_trace(path)
    assert caught.value.hint is not None


def test_text_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.parquet"
    path.write_text("not a trace at all, but long enough to hold a footer", encoding="utf-8")
    with pytest.raises(TraceError, match="no readable Parquet"):
        read_trace(path)


def test_newer_version_is_refused_with_advice(path: Path) -> None:
    rewrite(path, format_version=2)
    with pytest.raises(TraceError, match="version 2 is newer") as caught:
        read_trace(path)
    assert caught.value.hint is not None
    assert "upgrade" in caught.value.hint


def test_row_count_is_checked_against_the_metadata(path: Path) -> None:
    """F48"""
    rewrite(path, rows=199)
    with pytest.raises(TraceError, match="200 rows, but its metadata says 199"):
        read_trace(path)


def test_trace_without_rows_is_refused(path: Path) -> None:
    """F47"""
    document = json.loads(pq.read_metadata(path).metadata[METADATA_KEY]) | {"rows": 0}
    empty = SCHEMA.empty_table().replace_schema_metadata({METADATA_KEY: json.dumps(document)})
    pq.write_table(empty, path)
    with pytest.raises(TraceError, match="no requests: 0 rows"):
        read_trace(path)


def test_full_disk_leaves_the_earlier_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F48"""
    before = path.read_bytes()

    def full(writer: pq.ParquetWriter, table: pa.Table, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("loadgen.trace.parquet.pq.ParquetWriter.write_table", full)
    with pytest.raises(TraceError, match="No space left on device"):
        write_trace(make_trace(5), path)
    assert path.read_bytes() == before
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_trace_id_depends_on_the_requests_not_on_their_epoch() -> None:
    first = make_trace(10)
    moved = assemble_trace(
        first.arrival_ns + 5, {name: first.table.column(name) for name in SCHEMA.names[1:]}, first.metadata
    )
    assert moved.trace_id == first.trace_id
