"""Sources that are no plain file of one format: each is told in one line, before anything waits or is written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loadgen.errors import LoadgenError, RecordError, UsageError
from loadgen.record.recorder import record_logs
from loadgen.record.settings import RecordSettings
from support import command
from support.logs import counts

LINE = (
    '192.0.2.7 - - [25/Oct/2026:02:00:01 +0100] "POST /v1/chat HTTP/1.1" 200 812 "-" "demo/1" '
    "rt=1.503 msec=179289{:04}.204 rl=911 bs=1077\n"
)


def nginx(first: int, count: int) -> str:
    return "".join(LINE.format(first + k) for k in range(count))


def refused(*paths: Path) -> LoadgenError:
    with pytest.raises(LoadgenError) as caught:
        record_logs(paths, "auto", RecordSettings())
    return caught.value


def test_a_pipe_is_refused_with_the_way_that_works(tmp_path: Path) -> None:
    pipe, log = tmp_path / "pipe", tmp_path / "a.log"
    os.mkfifo(pipe)
    log.write_text(nginx(0, 3), encoding="utf-8")
    for paths in ((pipe,), (log, pipe)):
        error = refused(*paths)
        assert isinstance(error, UsageError)
        assert "can be read once only" in error.message
        assert "standard input" in (error.hint or "")


def test_a_folder_is_refused_with_what_to_give(tmp_path: Path) -> None:
    error = refused(tmp_path)
    assert isinstance(error, RecordError)
    assert error.hint == "give the files in it"


def test_a_file_of_another_format_among_others_is_named(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.log", "b.log", "c.jsonl")]
    paths[0].write_text(nginx(0, 500), encoding="utf-8")
    paths[1].write_text("what is this?\n" + nginx(500, 3), encoding="utf-8")
    paths[2].write_text('{"a": 1}\n' * 3, encoding="utf-8")
    recording = record_logs(paths, "auto", RecordSettings())
    assert counts(recording) == (503, 0, 4)
    named = [text for text in recording.fidelity.warnings if "could be read" in text]
    assert named == ["c.jsonl: no line of it could be read as nginx; is it of another format?"]
    assert not recording.fidelity.verdict.startswith("good")


def test_the_same_file_is_named_whatever_the_number_of_workers(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.log", "c.jsonl")]
    # More than the blocks that are read before other processes start.
    paths[0].write_text(nginx(0, 10_000) * 25, encoding="utf-8")
    paths[1].write_text('{"a": 1}\n' * 3, encoding="utf-8")
    for workers in (1, 2):
        warnings = record_logs(paths, "nginx", RecordSettings(), num_workers=workers).fidelity.warnings
        assert any(text.startswith("c.jsonl: no line of it") for text in warnings)


def test_standard_input_has_a_name(tmp_path: Path) -> None:
    told = command.run("record", "-", "--format", "nginx", "-o", tmp_path / "x.parquet")
    assert told.returncode == 2
    assert told.stderr.startswith("error: (stdin): the log is empty")
    assert not list(tmp_path.iterdir())
