"""The Parquet logs: every row, and no file under its final name before it is whole."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

from loadgen_target.exchange import Exchange
from loadgen_target.log import REQUEST_SCHEMA, STEP_SCHEMA, ParquetLog, request_row, step_row
from loadgen_target.request import Outcome, Status, StepRecord


def test_a_log_takes_its_name_when_it_is_closed_and_holds_every_row(tmp_path: Path) -> None:
    path = tmp_path / "steps.parquet"
    log = ParquetLog(path, STEP_SCHEMA)
    for k in range(4_500):
        record = StepRecord(k, k + 1, "decode", 0, 8, 7, 8, 100, 1, 2, 8, 1, 1, 0)
        row = step_row(Outcome((), (), record, 2, 8, 100))
        assert row is not None
        log.append(row)
    assert [file.name for file in tmp_path.iterdir()] == ["steps.parquet.partial"]
    log.close()
    assert [file.name for file in tmp_path.iterdir()] == ["steps.parquet"]
    table = pq.read_table(path)
    assert table.column("t_start_ns").to_pylist() == list(range(4_500))
    assert pq.ParquetFile(path).num_row_groups == 3
    assert table.schema.metadata[b"loadgen_target.log_version"] == b"3"


def test_a_request_that_was_refused_has_a_row_without_the_stages_it_never_reached(tmp_path: Path) -> None:
    exchange = Exchange(3, "run-1-0", recv_ns=100, recv_unix_ns=1_000)
    exchange.status, exchange.http_status, exchange.finished_ns = Status.REJECTED, 429, 150
    log = ParquetLog(tmp_path / "requests.parquet", REQUEST_SCHEMA)
    log.append(request_row(exchange, "dynamic"))
    log.close()
    (row,) = pq.read_table(tmp_path / "requests.parquet").to_pylist()
    given = {name: value for name, value in row.items() if value is not None}
    assert given == {
        "request_id": 3,
        "x_request_id": "run-1-0",
        "status": "rejected",
        "http_status": 429,
        "output_tokens": 0,
        "policy": "dynamic",
        "recv_unix_ns": 1_000,
        "recv_ns": 100,
        "finished_ns": 150,
    }


def test_an_outcome_without_a_pass_is_no_step() -> None:
    assert step_row(Outcome((1,), (), None, 0, 1, 0)) is None
