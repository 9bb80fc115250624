"""Ended exchanges to RequestRecord columns (see request_record.SCHEMA)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from loadgen.replay.exchange import Exchange
from loadgen.replay.request_record import SCHEMA, SERVER_STAGES

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
)
_NOTHING: Any = object()


def record_batch(
    ended: Sequence[Exchange], share: pa.Table, worker: int, redact: Callable[[str], str]
) -> pa.RecordBatch:
    """One record a row for `ended`, whose `index` says its row in `share` (a schedule's table)."""
    rows = share.take(pa.array([exchange.index for exchange in ended], pa.int64()))
    columns: dict[str, Any] = {
        "trace_row": rows.column("trace_row"),
        "copy": rows.column("copy"),
        "window": rows.column("window"),
        "input_tokens_planned": rows.column("input_tokens"),
        "output_tokens_planned": rows.column("output_tokens"),
        "first_token_ns": [exchange.token_ns[0] if exchange.token_ns else None for exchange in ended],
        "error": [redact(exchange.error) if exchange.error else None for exchange in ended],
        "output_tokens": [_output_tokens(exchange) for exchange in ended],
        "tokens_source": [_tokens_source(exchange) for exchange in ended],
        "num_chunks": [len(exchange.token_ns) if exchange.stream else None for exchange in ended],
        "num_coalesced": [exchange.num_coalesced if exchange.stream else None for exchange in ended],
        "chunk_gap_us": _chunk_gaps(ended),
        "worker": [worker] * len(ended),
    }
    for name in _SAME_NAME:
        columns[name] = [getattr(exchange, name) for exchange in ended]
    told = [exchange.server_metrics or {} for exchange in ended]
    for name in ("recv_unix_ns", "mean_batch", *(f"{stage}_us" for stage in SERVER_STAGES)):
        # Most servers tell none of it; this runs between sends.
        columns[f"server_{name}"] = [facts.get(name) for facts in told] if any(told) else _NOTHING
    return pa.RecordBatch.from_arrays(
        [_array(columns[field.name], field, len(ended)) for field in SCHEMA], schema=SCHEMA
    )


def _array(values: Any, field: pa.Field, count: int) -> pa.Array:
    if values is _NOTHING:
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
