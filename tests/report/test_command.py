"""`loadgen report` as it is called: exit codes, strict JSON, what it leaves behind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadgen.replay.request_record import SCHEMA
from loadgen.replay.run_folder import RunFolder
from support.command import run
from support.runs import failed, ok, records, written

ROWS = [ok(0.1 * k, first_s=0.1 * k + 0.05, last_s=0.1 * k + 0.2) for k in range(40)]
LATE_ROWS = [
    {**row, "dispatched_ns": row["planned_ns"] + 10_000_000, "sent_ns": row["planned_ns"] + 10_000_000}
    for row in ROWS
]


def strict(text: str) -> Any:
    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(text, parse_constant=refuse)


def test_the_report_is_printed_and_kept(tmp_path: Path) -> None:
    folder = written(tmp_path, ROWS)
    done = run("report", folder.path, "--json")
    assert done.returncode == 0, done.stderr
    assert strict(done.stdout) == strict(folder.report_path.read_text(encoding="utf-8"))
    assert strict(done.stdout)["outcomes"]["ok"]["count"] == 40


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--max-error-rate", "10%", "--slo", "ttft p50 < 10ms"], 1),
        (["--slo", "nonsense"], 2),
        (["--max-lateness", "5"], 2),
    ],
)
def test_limits_decide_the_exit_code(tmp_path: Path, options: list[str], code: int) -> None:
    done = run("report", written(tmp_path, ROWS).path, *options)
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(
    ("rows", "made_with", "options", "code"),
    [
        (ROWS, {"slo": ["ttft p50 < 10ms"]}, [], 1),
        (ROWS, {"slo": ["ttft p50 < 10ms"]}, ["--slo", "ttft p50 < 10s"], 0),
        (ROWS, {"slo": ["goodput >= 95%"], "goodput": ["ttft:10ms"]}, [], 1),
        ([*ROWS, failed(3.95, "reset", end_s=3.96)], {"max_error_rate": "1%"}, [], 1),
        (LATE_ROWS, {"max_lateness": "100ms"}, [], 0),
        (LATE_ROWS, {"max_lateness": "100ms"}, ["--max-lateness", "5ms"], 4),
        (LATE_ROWS, {"slo": [], "max_error_rate": None, "max_lateness": None, "goodput": []}, [], 4),
    ],
)
def test_a_run_is_held_to_the_limits_it_was_made_with(
    rows: list[dict[str, Any]], made_with: dict[str, Any], options: list[str], code: int, tmp_path: Path
) -> None:
    folder = written(tmp_path, rows)
    folder.write_facts({**folder.read_facts(), "settings": made_with})
    done = run("report", folder.path, *options)
    assert done.returncode == code, done.stderr


def test_a_run_without_a_success_exits_5_with_its_report(tmp_path: Path) -> None:
    # F26
    folder = written(tmp_path, [failed(0.1 * k, "refused", end_s=0.1 * k) for k in range(20)])
    done = run("report", folder.path, "--max-error-rate", "10%")
    assert done.returncode == 5
    assert "20 refused" in done.stdout
    assert folder.report_path.is_file()


def test_what_is_no_run_folder_is_named(tmp_path: Path) -> None:
    done = run("report", tmp_path)
    assert done.returncode == 2
    assert "no run.json" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_narrow_code_page_in_a_pipe_is_no_crash_and_no_escape_bytes(tmp_path: Path, encoding: str) -> None:
    # F83: a name that the code page lacks among them.
    rows = [*ROWS, failed(4.5, "http_error", end_s=4.6, error="HTTP 500: \u6a21\u578b \x1b[31mred")]
    folder = written(tmp_path, rows, trace={"name": "\u8ffd\u8e2a.parquet"})
    done = run("report", folder.path, env={"PYTHONIOENCODING": encoding})
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    assert "HTTP 500" in done.stdout


@pytest.mark.parametrize("columns", [None, "80", "200"])
def test_no_line_in_a_pipe_ends_in_a_space(tmp_path: Path, columns: str | None) -> None:
    error = "HTTP 503: " + "no room left in the queue " * 8
    rows = [*ROWS, failed(4.5, "rejected", end_s=4.6, error=error)]
    folder = written(
        tmp_path, rows, warmup={"outcomes": {"ok": 1}, "first_latency_s": 1.0, "median_latency_s": 1.0}
    )
    done = run(
        "report", folder.path, "--slo", "latency p99 < 1s", env={"COLUMNS": columns} if columns else {}
    )
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.endswith(" ")] == []
    assert all(len(line) <= int(columns or 80) for line in done.stdout.splitlines())


def test_a_killed_run_is_reported_from_its_journal(tmp_path: Path) -> None:
    # F84: whole batches count, the one that the kill cut off does not.
    folder = written(tmp_path, ROWS, status="running", run_end_ns=None, generator=None)
    folder.requests_path.unlink()
    table = records(ROWS)
    path = folder.journal_path(0)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, SCHEMA) as stream:
        for start in (0, 10, 20):
            stream.write_table(table.slice(start, 10))
    cut = path.read_bytes()
    path.write_bytes(cut[:-200])
    done = run("report", folder.path, "--json")
    assert done.returncode == 0, done.stderr
    document = strict(done.stdout)
    assert document["run"]["status"] == "interrupted"
    assert {name: one["count"] for name, one in document["outcomes"].items()} == {"ok": 20, "unrecorded": 20}
    assert "20 planned requests have no record" in " ".join(document["warnings"])
    assert "interrupted" in run("report", folder.path).stdout.splitlines()[0]


def test_a_killed_run_without_any_record_fails_with_a_report(tmp_path: Path) -> None:
    folder = written(tmp_path, ROWS, status="running", run_end_ns=None, started_unix_ns=None, generator=None)
    folder.requests_path.unlink()
    shutil.rmtree(folder.path / "journal")
    done = run("report", folder.path)
    assert done.returncode == 5, done.stderr
    assert "40 unrecorded" in done.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1]", "is no object of JSON"),
        ('{"status": "comp', "cannot be read"),
        ('{"status": "complete", "format_version": "x"}', "format_version is 'x', not a whole number"),
        ('{"status": "complete", "run_end_ns": NaN}', "run_end_ns is nan, not a whole number"),
        ('{"status": "complete", "generator": [1]}', "generator is [1], not an object"),
        ('{"format_version": 1}', "tells no status"),
    ],
)
def test_a_damaged_run_json_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    folder = written(tmp_path, ROWS)
    (folder.path / "run.json").write_text(text, encoding="utf-8")
    done = run("report", folder.path)
    assert done.returncode == 2
    assert f"run.json: {words}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "column"), [("requests.parquet", "trace_row"), ("telemetry.parquet", "t_ns")]
)
def test_a_table_of_something_else_is_one_line(tmp_path: Path, name: str, column: str) -> None:
    folder = written(tmp_path, ROWS)
    pq.write_table(pa.table({"a": [1]}), folder.path / name)
    done = run("report", folder.path)
    assert done.returncode == 2
    assert f"{name}: has no column {column}" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_run_with_columns_and_facts_of_an_older_version_is_reported(tmp_path: Path) -> None:
    folder = written(tmp_path, ROWS)
    table = pq.read_table(folder.requests_path)
    newer = ("first_answer_token_ns", "server_mean_batch", "dispatched_ns", "num_coalesced")
    pq.write_table(table.drop_columns(list(newer)), folder.requests_path)
    (folder.path / "run.json").write_text('{"format_version": 0, "status": "complete"}', encoding="utf-8")
    done = run("report", folder.path, "--json")
    assert done.returncode == 0, done.stderr
    assert strict(done.stdout)["outcomes"]["ok"]["count"] == 40


def test_a_damaged_table_is_one_line(tmp_path: Path) -> None:
    folder: RunFolder = written(tmp_path, ROWS)
    folder.requests_path.write_bytes(folder.requests_path.read_bytes()[:100])
    done = run("report", folder.path)
    assert done.returncode == 2
    assert "requests.parquet" in done.stderr
    assert "Traceback" not in done.stderr
