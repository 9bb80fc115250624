"""A worker in this process, sending at a scripted target over real loopback sockets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import uvloop

from loadgen.plan.prompts import PromptMaker
from loadgen.plan.schedule import SCHEMA
from loadgen.replay.clock import clock_starting_in
from loadgen.replay.dialects import dialect_named
from loadgen.replay.dialects.template import Template
from loadgen.replay.health import Health
from loadgen.replay.payloads import Asking, Payloads
from loadgen.replay.target import Target, Timeouts, parse_url
from loadgen.replay.worker import Progress, Worker, WorkerSettings

Records = list[dict[str, Any]]


def schedule_table(planned_s: Sequence[float], **columns: Sequence[Any]) -> pa.Table:
    """A schedule's table with the given moments; other columns are null or plain unless given."""
    count = len(planned_s)
    given: dict[str, Any] = {
        "planned_ns": np.round(np.asarray(planned_s, dtype=np.float64) * 1e9).astype(np.int64),
        "trace_row": list(range(count)),
        "copy": [0] * count,
        "window": ["baseline"] * count,
        "input_tokens": [4] * count,
        "output_tokens": [3] * count,
        **columns,
    }
    arrays = []
    for field in SCHEMA:
        values = given.get(field.name, [None] * count)
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        array = pa.array(values, kind)
        arrays.append(array.dictionary_encode().cast(field.type) if kind != field.type else array)
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


class Sent:
    """What a worker did: its records in order of trace_row, its health and the last progress."""

    def __init__(self, batches: list[pa.RecordBatch], health: Health, progress: list[Progress]) -> None:
        rows: Records = pa.Table.from_batches(batches).to_pylist()
        self.records: Records = sorted(rows, key=lambda row: row["trace_row"])
        self.health = health
        self.progress = progress

    @property
    def outcomes(self) -> list[str]:
        return [row["outcome"] for row in self.records]


def send(
    url: str,
    planned_s: Sequence[float],
    *,
    timeouts: Timeouts | None = None,
    stream: bool | None = True,
    endpoint_type: str = "chat",
    template: Template | None = None,
    table: pa.Table | None = None,
    target_changes: dict[str, Any] | None = None,
    on_worker: Callable[[Worker], None] | None = None,
    **settings: Any,
) -> Sent:
    """Send one request at each planned moment, or the rows of a schedule's table, and wait for the end."""
    parts = parse_url(url)
    target = Target(
        str(parts), parts.scheme, parts.host, parts.port, parts.host, unix_socket=parts.unix_socket
    )
    target = replace(target, **(target_changes or {}))
    table = schedule_table(planned_s) if table is None else table
    worker_settings = WorkerSettings(target, timeouts or Timeouts(), **settings)
    dialect = dialect_named(endpoint_type, template)
    asking = Asking(endpoint_type, "fake", "run", stream=stream, template=template)
    payloads = Payloads(table, target, dialect, PromptMaker(seed=1), asking)
    batches: list[pa.RecordBatch] = []
    progress: list[Progress] = []

    async def run() -> Health:
        worker = Worker(0, table, worker_settings, dialect, payloads, batches.append, progress.append)
        await worker.prepare()
        if on_worker is not None:
            on_worker(worker)
        clock, _ = clock_starting_in(0.05)
        return await worker.run(clock)

    return Sent(batches, uvloop.run(run()), progress)
