"""Records left in a shared folder: whole files, tried again where they could not be written, nothing secret."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

from loadgen.errors import UsageError
from loadgen.replay import record_parts
from loadgen.replay.record_parts import (
    PartsWriter,
    batches_of,
    checked_folder,
    made_folder,
    parts_of,
    remove_parts,
)
from loadgen.replay.run_folder import RunFolder
from support import runs


def batch(planned_s: float) -> pa.RecordBatch:
    row = runs.ok(planned_s, first_s=planned_s + 0.1, last_s=planned_s + 0.2)
    return runs.records([row]).combine_chunks().to_batches()[0]


def planned(records_at: str) -> dict[int, list[int]]:
    return {
        worker: [row for path in parts for one in batches_of(path) for row in one["planned_ns"].to_pylist()]
        for worker, parts in parts_of(records_at).items()
    }


@pytest.fixture(params=["folder", "memory"])
def records_at(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "memory":
        pytest.importorskip("upath")
        return f"memory://parts/{tmp_path.name}"
    return str(tmp_path / "shared" / "run-1")


def test_each_worker_has_its_parts_in_the_order_they_were_written(records_at: str) -> None:
    async def write() -> None:
        made_folder(records_at)
        for worker in (10, 2):
            writer = PartsWriter(records_at, worker)
            await writer.write()  # nothing yet: no part
            for second in range(3):
                writer.append(batch(second + worker))
                await writer.write()
            assert not writer.held

    asyncio.run(write())
    assert planned(records_at) == {w: [runs.ns(s + w) for s in range(3)] for w in (2, 10)}
    assert [len(parts) for parts in parts_of(records_at).values()] == [3, 3]
    remove_parts(records_at)
    assert parts_of(records_at) == {}


def test_what_could_not_be_written_is_written_with_the_next(
    records_at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, batches: list[pa.RecordBatch]) -> None:
        raise OSError(28, "No space left on device")

    async def write() -> PartsWriter:
        made_folder(records_at)
        writer = PartsWriter(records_at, 0)
        writer.append(batch(1))
        with monkeypatch.context() as patched:
            patched.setattr(record_parts, "_write", full)
            await writer.write()
            assert len(writer.held) == 1
        writer.append(batch(2))
        await writer.write()
        return writer

    writer = asyncio.run(write())
    assert not writer.held
    assert writer.failure == "No space left on device"
    assert planned(records_at) == {0: [runs.ns(1), runs.ns(2)]}


def test_two_writes_at_a_time_are_two_parts(records_at: str) -> None:
    async def write() -> None:
        made_folder(records_at)
        writer = PartsWriter(records_at, 0)
        writer.append(batch(1))
        first = asyncio.ensure_future(writer.write())
        await asyncio.sleep(0)
        writer.append(batch(2))
        await asyncio.gather(first, writer.write())

    asyncio.run(write())
    assert planned(records_at) == {0: [runs.ns(1), runs.ns(2)]}


def test_a_folder_that_is_another_one_on_this_machine_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run-1").mkdir()
    with pytest.raises(UsageError, match="not the same folder for all nodes"):
        PartsWriter(str(tmp_path / "run-1"), 0)


def test_one_that_cannot_be_written_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written to"):
        made_folder(str(tmp_path / "file" / "run-1"))


@pytest.mark.parametrize(
    "text", ["s3://key:s3cret@bucket/x", "https://host/x?sig=s3cret", "ftp://s3cret@host/x"]
)
def test_a_url_with_a_secret_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        checked_folder(text)
    assert "s3cret" not in f"{refused.value.message} {refused.value.hint}"


def test_half_a_part_is_none(tmp_path: Path) -> None:
    records_at = str(tmp_path / "run-1")

    async def write() -> None:
        made_folder(records_at)
        writer = PartsWriter(records_at, 0)
        writer.append(batch(1))
        await writer.write()
        (tmp_path / "run-1" / "worker-0" / "000001.arrows.partial").write_bytes(b"half")

    asyncio.run(write())
    assert planned(records_at) == {0: [runs.ns(1)]}
    remove_parts(records_at)
    assert not (tmp_path / "run-1").exists()


def test_a_killed_run_is_read_from_where_its_workers_left_their_records(tmp_path: Path) -> None:
    records_at = str(tmp_path / "shared")

    async def write() -> None:
        made_folder(records_at)
        for worker in range(2):
            writer = PartsWriter(records_at, worker)
            writer.append(batch(worker))
            await writer.write()

    asyncio.run(write())
    rows = [runs.ok(0.0, first_s=0.1, last_s=0.2)]
    folder = runs.written(tmp_path, rows, status="running", planned=2, records_at=records_at)
    folder.requests_path.unlink()
    assert RunFolder(folder.path).read_requests()["planned_ns"].to_pylist() == [0, runs.ns(1)]
