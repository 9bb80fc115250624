"""Output whose reader leaves early: the work goes on, and the exit code stays the work's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import command
from support.runs import ok, written

ROWS = [ok(0.1 * k, first_s=0.1 * k + 0.05, last_s=0.1 * k + 0.2) for k in range(40)]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ([], 0),
        (["--json"], 0),
        (["--slo", "ttft p50 < 10ms"], 1),
        (["--json", "--slo", "ttft p50 < 10ms"], 1),
    ],
)
def test_a_report_that_nobody_reads_is_kept_and_ends_as_it_would(
    tmp_path: Path, options: list[str], code: int
) -> None:
    folder = written(tmp_path, ROWS)
    with command.start("report", folder.path, "--markdown", tmp_path / "report.md", *options) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        err = process.stderr.read().decode()
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert (tmp_path / "report.md").is_file()


def test_notes_that_nobody_reads_change_nothing(tmp_path: Path) -> None:
    folder = written(tmp_path, ROWS)
    with command.start("report", folder.path, "--markdown", tmp_path / "report.md") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stderr.close()
        out = process.stdout.read().decode()
    assert process.returncode == 0
    assert "40 ok" in out
