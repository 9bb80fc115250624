"""RunFolder where it can no longer be written to."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from loadgen.errors import ExitCode
from loadgen.replay.run_folder import RunFolder, RunNotKept
from support.runs import ok, records

RECORDS = records([ok(0.1 * k, first_s=0.1 * k + 0.05, last_s=0.1 * k + 0.2) for k in range(40)])


@contextmanager
def files_no_longer_than(num_bytes: int) -> Iterator[None]:
    """A full disk, as far as one file can tell."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("run.json", lambda folder: folder.write_facts({"name": "long " * 100})),
        ("requests.parquet", lambda folder: folder.write_requests(RECORDS)),
        ("warmup.parquet", lambda folder: folder.write_warmup(RECORDS)),
        ("telemetry.parquet", lambda folder: folder.write_telemetry(pa.table({"value": list(range(500))}))),
    ],
)
def test_a_full_disk_is_one_line_that_fails_the_run_and_keeps_what_was_there(
    tmp_path: Path, name: str, write: Callable[[RunFolder], None]
) -> None:
    folder = RunFolder.create(tmp_path, "test", datetime(2026, 12, 1, tzinfo=UTC))
    folder.write_facts({"name": "short"})
    with files_no_longer_than(100), pytest.raises(RunNotKept) as raised:
        write(folder)
    assert name in raised.value.message
    assert "\n" not in raised.value.message
    assert str(folder.path) in str(raised.value.hint)
    assert raised.value.exit_code == ExitCode.RUN_FAILED
    assert folder.read_facts()["name"] == "short"
    assert sorted(path.name for path in folder.path.iterdir()) == ["journal", "run.json"]
