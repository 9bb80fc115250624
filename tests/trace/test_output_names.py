"""Where a trace cannot be written is told before anything is read, and no device is replaced by a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loadgen.atomic_file import write_text
from loadgen.cli.output_file import refuse_to_overwrite
from loadgen.errors import TraceError, UsageError
from loadgen.trace.foreign.catalog import read_foreign
from loadgen.trace.parquet import read_trace


def test_what_is_no_file_is_never_replaced(tmp_path: Path) -> None:
    pipe, folder = tmp_path / "pipe", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    for target in (pipe, folder):
        with pytest.raises(OSError, match="it is"):
            write_text(target, "x")
        with pytest.raises(UsageError, match=r"is no file|is a folder"):
            refuse_to_overwrite(target, tmp_path / "log", force=True)
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "pipe"]


def test_a_file_in_the_place_of_a_folder_and_a_url_are_told_before_the_log_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match=r"a\.log is no folder"):
        refuse_to_overwrite(tmp_path / "a.log" / "b" / "x.parquet", tmp_path / "log", force=False)
    with pytest.raises(UsageError, match="a URL") as caught:
        refuse_to_overwrite(Path("s3://bucket/x.parquet"), tmp_path / "log", force=True)
    assert "-o" in (caught.value.hint or "")
    refuse_to_overwrite(tmp_path / "new" / "folder" / "x.parquet", tmp_path / "log", force=False)


def test_a_trace_at_a_url_is_to_be_copied_first() -> None:
    with pytest.raises(TraceError, match="no such file") as caught:
        read_trace(Path("s3://bucket/x.parquet"))
    assert "copy it here" in (caught.value.hint or "")


def test_a_parquet_file_is_not_converted_and_says_what_is_done_with_it(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    path.write_bytes(b"PAR1" + bytes(20) + b"PAR1")
    with pytest.raises(TraceError, match="a Parquet file") as caught:
        read_foreign(path)
    assert "--to mooncake" in (caught.value.hint or "")
