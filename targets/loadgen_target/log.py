"""Logs in Parquet: one row a request, one row a step; under a `.partial` name until the server ends."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loadgen_target.exchange import STAGES, Exchange
from loadgen_target.request import Outcome

# 3: steps have cpu_wait_ns. 2: steps have active_ns and kernel_ns, and the kind mixed. 1: first version.
LOG_VERSION = 3
_ROWS_A_GROUP = 2_000

REQUEST_SCHEMA = pa.schema(
    [
        pa.field("request_id", pa.int64()),
        pa.field("x_request_id", pa.string()),  # the client's header; null without one
        pa.field(
            "status", pa.dictionary(pa.int8(), pa.string())
        ),  # ok, invalid, rejected, timeout, cancelled, error
        pa.field("http_status", pa.int16()),  # null when the client left before one was sent
        pa.field("finish_reason", pa.string()),
        pa.field("prompt_tokens", pa.int32()),
        pa.field("output_tokens", pa.int32()),
        pa.field("max_tokens", pa.int32()),
        pa.field("stream", pa.bool_()),
        pa.field("policy", pa.string()),
        pa.field("recv_unix_ns", pa.int64()),
        pa.field("recv_ns", pa.int64()),  # this and all below: CLOCK_MONOTONIC ns; null when not reached
        *(pa.field(f"{stage}_ns", pa.int64()) for stage in STAGES),
        pa.field("batch_at_start", pa.int32()),
        pa.field("mean_batch", pa.float32()),
        pa.field("steps", pa.int32()),
    ]
)

STEP_SCHEMA = pa.schema(
    [
        pa.field("t_start_ns", pa.int64()),  # CLOCK_MONOTONIC
        pa.field("t_end_ns", pa.int64()),
        pa.field("kind", pa.string()),  # prefill, decode or mixed
        pa.field("group", pa.int8()),
        pa.field("rows", pa.int32()),
        pa.field("useful_rows", pa.int32()),
        pa.field("new_tokens", pa.int32()),
        pa.field("kv_tokens", pa.int64()),
        pa.field("cpu_ns", pa.int64()),
        pa.field("num_waiting", pa.int32()),
        pa.field("num_running", pa.int32()),
        pa.field("active_ns", pa.int64()),  # time with work on the device
        pa.field("kernel_ns", pa.int64()),  # time of its kernels; null where not known
        pa.field("cpu_wait_ns", pa.int64()),  # other programs had the CPU; null where not known
    ]
)


class ParquetLog:
    """Rows in, row groups out on a thread of its own; `close` gives the file its final name."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._path = path
        self._partial = path.with_name(path.name + ".partial")
        anchor = {
            b"loadgen_target.log_version": str(LOG_VERSION).encode(),
            b"loadgen_target.anchor_unix_ns": str(time.time_ns()).encode(),
            b"loadgen_target.anchor_mono_ns": str(time.monotonic_ns()).encode(),
        }
        self._schema = schema.with_metadata(anchor)
        self._writer = pq.ParquetWriter(self._partial, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="log")
        self._writes: list[Future[None]] = []

    def append(self, row: dict[str, Any]) -> None:
        """Take a row; every field of the schema is in it."""
        self._rows.append(row)
        if len(self._rows) >= _ROWS_A_GROUP:
            self._flush()

    def close(self) -> None:
        """Write the rest, and rename. Raises OSError when the file could not be written, now or before."""
        self._flush()
        self._pool.shutdown(wait=True)
        for write in self._writes:
            write.result()
        self._writer.close()
        self._partial.replace(self._path)

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            self._writes = [write for write in self._writes if not write.done() or write.exception()]
            self._writes.append(self._pool.submit(self._write, rows))

    def _write(self, rows: list[dict[str, Any]]) -> None:
        self._writer.write_table(pa.Table.from_pylist(rows, schema=self._schema))


def request_row(exchange: Exchange, policy: str) -> dict[str, Any]:
    """The log's row of a request that has ended."""
    asked, began, ended = exchange.asked, exchange.began, exchange.ended
    return {
        "request_id": exchange.request_id,
        "x_request_id": exchange.x_request_id,
        "status": str(exchange.status),
        "http_status": exchange.http_status,
        "finish_reason": ended.finish_reason if ended else None,
        "prompt_tokens": asked.num_prompt_tokens if asked else None,
        "output_tokens": exchange.output_tokens,
        "max_tokens": asked.sampling.max_tokens if asked else None,
        "stream": asked.is_stream if asked else None,
        "policy": policy,
        "recv_unix_ns": exchange.recv_unix_ns,
        "recv_ns": exchange.recv_ns,
        **{f"{stage}_ns": exchange.stage_ns(stage) for stage in STAGES},
        "batch_at_start": began.batch_at_start if began else None,
        "mean_batch": ended.mean_batch if ended else None,
        "steps": ended.steps if ended else None,
    }


def step_row(outcome: Outcome) -> dict[str, Any] | None:
    """The log's row of a step; None for an outcome without a forward pass."""
    record = outcome.record
    if record is None:
        return None
    return {
        "t_start_ns": record.start_ns,
        "t_end_ns": record.end_ns,
        **{name: getattr(record, name) for name in STEP_SCHEMA.names if not name.startswith("t_")},
    }
