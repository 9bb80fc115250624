"""Work that takes long says so, once; short work says nothing."""

from __future__ import annotations

import pytest

from loadgen.cli.progress import SlowNote


def test_work_that_takes_long_is_told_of_once(capsys: pytest.CaptureFixture[str]) -> None:
    with SlowNote("day.parquet: being read", after_s=0) as note:
        note._timer.join()
    assert capsys.readouterr().err == "day.parquet: being read\n"


def test_short_work_says_nothing_and_leaves_nothing_behind(capsys: pytest.CaptureFixture[str]) -> None:
    with SlowNote("day.parquet: being read", after_s=3600) as note:
        pass
    note._timer.join()
    assert capsys.readouterr() == ("", "")
