"""Ended exchanges to RequestRecord columns (see request_record.SCHEMA)."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from loadgen.replay.exchange import Exchange
from loadgen.replay.request_record import SCHEMA, Phase

# Columns that an exchange holds under the same name.
_SAME_NAME = (
    "planned_ns",
    "dispatched_ns",
    "sent_ns",
    "headers_ns",
    "first_byte_ns",
    "first_answer_token_ns",
    "last_token_ns",
    "end_ns",
    "outcome",
    "status_code",
    "finish_reason",
    "prompt_tokens",
    "retry_after_s",
    "connection_reused",
    "num_reconnects",
    "num_retries",
    "released_ns",
    "phase",
)
# Columns that a record takes from its planned request.
_FROM_SCHEDULE = {
    "trace_row": "trace_row",
    "copy": "copy",
    "window": "window",
    "input_tokens_planned": "input_tokens",
    "output_tokens_planned": "output_tokens",
}


def record_batch(
    ended: Sequence[Exchange], share: pa.Table, worker: int, redact: Callable[[str], str]
) -> pa.RecordBatch:
    """One record a row for `ended`, whose `index` says its row in `share` (a schedule's table)."""
    return drained(record_batch_in_steps(ended, share, worker, redact))


def drained(steps: Generator[None, None, pa.RecordBatch]) -> pa.RecordBatch:
    """Take all remaining steps now."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            batch: pa.RecordBatch = done.value
            return batch


def record_batch_in_steps(
    ended: Sequence[Exchange], share: pa.Table, worker: int, redact: Callable[[str], str]
) -> Generator[None, None, pa.RecordBatch]:
    """The same, pausing after each column, so that whoever drives it can send in between."""
    rows = share.take(pa.array([exchange.index for exchange in ended], pa.int64()))
    yield
    told = [exchange.server_metrics or {} for exchange in ended]
    tells_stages = any(told)
    columns: list[pa.Array] = []
    for field in SCHEMA:
        columns.append(
            _array(
                _values(field.name, ended, rows, told if tells_stages else None, worker, redact),
                field,
                len(ended),
            )
        )
        yield
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _values(  # noqa: PLR0911  # one return a column
    name: str,
    ended: Sequence[Exchange],
    rows: pa.Table,
    told: Sequence[dict[str, Any]] | None,
    worker: int,
    redact: Callable[[str], str],
) -> Any:
    """The values of one column; None for a column of nulls."""
    if name in _SAME_NAME:
        return [getattr(exchange, name) for exchange in ended]
    if name in _FROM_SCHEDULE:
        column = rows.column(_FROM_SCHEDULE[name])
        return _with_warmup(name, column, ended) if name in ("copy", "window") else column
    if name.startswith("server_"):
        key = name.removeprefix("server_")
        return None if told is None else [facts.get(key) for facts in told]
    match name:
        case "first_token_ns":
            return [exchange.token_ns[0] if exchange.token_ns else None for exchange in ended]
        case "error":
            return [redact(exchange.error) if exchange.error else None for exchange in ended]
        case "output_tokens":
            return [_output_tokens(exchange) for exchange in ended]
        case "tokens_source":
            return [_tokens_source(exchange) for exchange in ended]
        case "num_chunks":
            return [len(exchange.token_ns) if exchange.stream else None for exchange in ended]
        case "num_coalesced":
            return [exchange.num_coalesced if exchange.stream else None for exchange in ended]
        case "chunk_gap_us":
            return _chunk_gaps(ended)
        case _:
            assert name == "worker", name
            return [worker] * len(ended)


def _with_warmup(name: str, column: pa.ChunkedArray, ended: Sequence[Exchange]) -> Any:
    """A warm-up has the lengths of a planned request, but is not that: copy and window are its own."""
    if all(exchange.phase is Phase.RUN for exchange in ended):
        return column
    return [
        planned
        if exchange.phase is Phase.RUN
        else (exchange.warmup_copy if name == "copy" else Phase.WARMUP.value)
        for exchange, planned in zip(ended, column.to_pylist(), strict=True)
    ]


def _array(values: Any, field: pa.Field, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, field.type)
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
        values = pa.concat_arrays(values.chunks) if isinstance(values, pa.ChunkedArray) else values
    if isinstance(values, pa.Array):
        return values.cast(field.type)
    if pa.types.is_dictionary(field.type):
        return pa.array(values, pa.string()).dictionary_encode().cast(field.type)
    return pa.array(values, field.type)


def _output_tokens(exchange: Exchange) -> int | None:
    """The server's own count; where it gave none, the events that carried text."""
    if exchange.output_tokens is not None:
        return exchange.output_tokens
    return len(exchange.token_ns) if exchange.stream and exchange.headers_ns is not None else None


def _tokens_source(exchange: Exchange) -> str | None:
    if exchange.output_tokens is not None:
        return "usage"
    return "chunks" if exchange.stream and exchange.headers_ns is not None else None


def _chunk_gaps(ended: Sequence[Exchange]) -> pa.ListArray:
    """Gaps between token events in us, rounded on one grid so that their sum does not drift."""
    counts = np.fromiter((len(exchange.token_ns) for exchange in ended), np.int64, len(ended))
    moments_us = np.fromiter(
        chain.from_iterable(exchange.token_ns for exchange in ended), np.int64, int(counts.sum())
    )
    moments_us //= 1000
    gaps = np.diff(moments_us)
    ends = np.cumsum(counts)
    # The step from one exchange's last token to the next one's first is no gap.
    is_gap = np.ones(len(gaps), dtype=bool)
    seams = ends[:-1][counts[:-1] > 0] - 1
    is_gap[seams[seams < len(gaps)]] = False
    offsets = np.concatenate([[0], np.cumsum(np.maximum(counts - 1, 0))]).astype(np.int32)
    values = pa.array(gaps[is_gap].astype(np.int32))
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=pa.array(counts == 0))
