"""Run folders made by hand, for tests of the report: a row is a request, times in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.plan.schedule import Schedule, Window
from loadgen.replay.request_record import SCHEMA
from loadgen.replay.run_folder import RunFolder
from loadgen.report.measures import Measures, measure
from loadgen.report.observations import Observations
from loadgen.telemetry.samples import Samples
from support.sending import schedule_table

Row = dict[str, Any]


def ok(planned_s: float, *, first_s: float, last_s: float, tokens: int = 2, **more: Any) -> Row:
    """A stream that succeeded; moments from the run's start. Its chunks are evenly spaced."""
    sent_s = more.pop("sent_s", planned_s)
    gaps = tokens - 1
    gap_us = [round((last_s - first_s) * 1e6 / gaps)] * gaps if gaps else []
    return {
        "planned_ns": ns(planned_s), "dispatched_ns": ns(sent_s), "sent_ns": ns(sent_s), "headers_ns": ns(first_s),
        "first_byte_ns": ns(first_s), "first_token_ns": ns(first_s), "first_answer_token_ns": ns(first_s),
        "last_token_ns": ns(last_s), "end_ns": ns(last_s), "outcome": "ok", "status_code": 200,
        "output_tokens": tokens, "tokens_source": "usage", "num_chunks": tokens, "num_coalesced": 0,
        "chunk_gap_us": gap_us, **more,
    }  # fmt: skip


def failed(planned_s: float, outcome: str, *, end_s: float | None = None, **more: Any) -> Row:
    """A request that did not succeed; not_sent and unrecorded ones have no moments."""
    sent = None if outcome in ("not_sent", "unrecorded") else ns(planned_s)
    return {
        "planned_ns": ns(planned_s), "dispatched_ns": sent, "sent_ns": sent,
        "end_ns": None if end_s is None else ns(end_s), "outcome": outcome, **more,
    }  # fmt: skip


def ns(moment_s: float) -> int:
    return round(moment_s * 1e9)


def records(rows: Sequence[Row]) -> pa.Table:
    """The rows as RequestRecords, in order of planned time."""
    filled = [
        {"trace_row": number, "copy": 0, "window": "baseline", "worker": 0, **row}
        for number, row in enumerate(sorted(rows, key=lambda row: row["planned_ns"]))
    ]
    arrays = []
    for field in SCHEMA:
        values = [row.get(field.name) for row in filled]
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        array = pa.array(values, kind)
        arrays.append(array.dictionary_encode().cast(field.type) if kind != field.type else array)
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def measured(
    rows: Sequence[Row], *, length_s: float = 10.0, windows: Sequence[Window] = (), run_end_s: float = np.inf
) -> dict[str, Measures]:
    """Measures by label."""
    seen = Observations(records(rows))
    spans = windows or (Window("baseline", 0, ns(length_s)),)
    return {one.label: one for one in measure(seen, spans, run_end_s)}


def written(
    folder: Path,
    rows: Sequence[Row],
    *,
    length_s: float = 10.0,
    windows: Sequence[Window] = (),
    planned: int | None = None,
    telemetry: Samples | None = None,
    **facts: Any,
) -> RunFolder:
    """A whole run folder of these rows; `planned` may exceed them, as in a run that was killed."""
    run = RunFolder.create(folder, "test", datetime(2026, 12, 1, tzinfo=UTC))
    spans = tuple(windows) or (Window("baseline", 0, ns(length_s)),)
    moments = [row["planned_ns"] / 1e9 for row in rows]
    moments += [length_s] * ((planned or len(rows)) - len(rows))
    run.write_schedule(Schedule(schedule_table(sorted(moments)), spans, "trace-id", {}))
    run.write_requests(records(rows))
    if telemetry is not None:
        pq.write_table(telemetry.table(), run.telemetry_path)
    run.write_facts(
        {
            "run_id": "test-run", "name": "test", "status": "complete", "exit_reason": None,
            "started_utc": "2026-12-01T00:00:00+00:00", "started_unix_ns": 1_796_083_200_000_000_000,
            "run_end_ns": ns(length_s), "command": ["loadgen"], "settings": {}, "seed": 0, "shape": {},
            "schedule_hash": "hash", "trace": {"name": "t.parquet", "trace_id": "trace-id", "rows": len(rows)},
            "target": {"url": "http://127.0.0.1:8000", "model": "m", "dialect": "chat", "facts": None},
            "versions": {"loadgen": "0"}, "host": {}, "warnings": [],
            "generator": {"workers": [health(0)], "lost": []},
            **facts,
        }
    )  # fmt: skip
    return run


def health(worker: int, **changes: Any) -> dict[str, Any]:
    from loadgen.replay.health import Health

    plain = Health(1.0, 10.0, 0.0001, 0.001, 0.002, 0.0, 1 << 26)
    return {"worker": worker, **asdict(plain), **changes}
