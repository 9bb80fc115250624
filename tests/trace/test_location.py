"""Sources at URLs are read as files are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from loadgen.errors import TraceError, UsageError
from loadgen.trace.location import is_remote, location
from loadgen.trace.source_stream import SourceStream


def test_a_url_is_read_like_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"one\ntwo\n")
    url = location(f"file://{tmp_path}/a.log")
    remote = SourceStream(url, error=TraceError)
    local = SourceStream(location(str(tmp_path / "a.log")), error=TraceError)
    assert list(remote.blocks()) == list(local.blocks()) == [b"one\ntwo\n"]
    assert remote.source_file == local.source_file
    assert is_remote(url) and not is_remote(tmp_path)


def test_a_url_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "upath", None)
    with pytest.raises(UsageError, match=r"s3://bucket/a\.log") as caught:
        location("s3://bucket/a.log")
    assert caught.value.hint is not None and "loadgen[remote]" in caught.value.hint


@pytest.mark.parametrize("url", ["s3://bucket/a.log", "nosuch://a.log"])
def test_a_kind_of_url_that_cannot_be_read_is_told_in_one_line(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        location(url)
    assert caught.value.message.startswith(url) and "\n" not in caught.value.message


def test_what_is_not_there_is_told_in_one_line() -> None:
    with pytest.raises(TraceError, match="cannot be opened"):
        list(SourceStream(location("memory://nowhere/a.log"), error=TraceError).blocks())
