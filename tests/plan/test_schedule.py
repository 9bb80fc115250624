"""A schedule file is read as it was written, or refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadgen.errors import LoadgenError, ScheduleError
from loadgen.plan.injection import Peak
from loadgen.plan.planner import plan
from loadgen.plan.schedule import FORMAT_VERSION, METADATA_KEY, read_schedule, write_schedule
from loadgen.plan.shape import Shape
from support.traces import trace_of

BURSTY = sorted(10.0 * burst + 0.01 * k for burst in range(12) for k in range(5))


def test_a_schedule_is_read_as_it_was_written(tmp_path: Path) -> None:
    schedule = plan(trace_of(BURSTY, model=["a", "b"] * 30), Shape(peak=Peak()))
    write_schedule(schedule, tmp_path / "schedule.parquet")
    read = read_schedule(tmp_path / "schedule.parquet")
    assert read.schedule_hash == schedule.schedule_hash
    assert read.windows == schedule.windows
    assert read.trace_id == schedule.trace_id


@pytest.mark.parametrize("keep", [0, 4, 400, -1])
def test_a_cut_schedule_file_is_one_error(tmp_path: Path, keep: int) -> None:
    # F48
    path = tmp_path / "schedule.parquet"
    write_schedule(plan(trace_of(BURSTY), Shape()), path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(LoadgenError, match=r"schedule\.parquet"):
        read_schedule(path)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format_version": FORMAT_VERSION + 1}, "newer"),
        ({"format_version": "soon"}, "breaks the schedule format"),
        ({"windows": [{"label": "baseline"}]}, "breaks the schedule format"),
    ],
)
def test_a_header_that_cannot_be_understood_is_refused(
    tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    path = tmp_path / "schedule.parquet"
    write_schedule(plan(trace_of([0, 1]), Shape()), path)
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[METADATA_KEY]) | changed
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: json.dumps(header)}), path)
    with pytest.raises(ScheduleError, match=message):
        read_schedule(path)


@pytest.mark.parametrize("metadata", [None, {METADATA_KEY: b"{}"}, {METADATA_KEY: b"{"}])
def test_another_table_is_no_schedule(tmp_path: Path, metadata: dict[bytes, bytes] | None) -> None:
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"x": [1]}).replace_schema_metadata(metadata), path)
    with pytest.raises(ScheduleError, match=r"other\.parquet"):
        read_schedule(path)


def test_a_path_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ScheduleError, match="cannot be written"):
        write_schedule(plan(trace_of([0, 1]), Shape()), tmp_path / "file" / "schedule.parquet")
