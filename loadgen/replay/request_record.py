"""RequestRecord: what happened to one planned request, as columns; moments are stored, durations derived."""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa


class Outcome(StrEnum):
    """How a planned request ended; exactly one each.

    planned = sent + not_sent + unrecorded, and sent = the sum of all others.
    """

    OK = "ok"
    HTTP_ERROR = "http_error"  # a status other than 2xx, save 429 and 503
    REJECTED = "rejected"  # 429 or 503: back-pressure
    STREAM_ERROR = "stream_error"  # an error object inside a 200
    INCOMPLETE_STREAM = "incomplete_stream"  # ended without finish_reason, [DONE] or its announced length
    EMPTY = "empty"  # a complete answer without a single token
    TIMEOUT_CONNECT = "timeout_connect"
    TIMEOUT_FIRST_TOKEN = "timeout_first_token"
    TIMEOUT_GAP = "timeout_gap"
    TIMEOUT_TOTAL = "timeout_total"
    RESET = "reset"  # the connection broke, or what came was no HTTP
    REFUSED = "refused"  # nobody listens
    CLIENT_ERROR = "client_error"  # our own fault: descriptors, ports, a bug
    UNFINISHED = "unfinished"  # still running when the run ended
    NOT_SENT = "not_sent"
    UNRECORDED = "unrecorded"  # whoever was to send it is gone: whether it was sent is not known


class Phase(StrEnum):
    """Which part of a run a request belongs to."""

    RUN = "run"
    WARMUP = "warmup"  # sent before the start; in no figure


# Outcomes whose cause is on our side: they never count against the target.
OWN_FAULTS = frozenset({Outcome.CLIENT_ERROR, Outcome.NOT_SENT})
# Neither a success nor a failure of the target.
UNDECIDED = frozenset({Outcome.UNFINISHED, Outcome.UNRECORDED})

# Record file format. Version 1 (2026-12). Columns that may be null come and go within a version: readers add
# those that a file lacks.
FORMAT_VERSION = 1

# Moments of the server, in microseconds from its receipt of the request, in the order they happen.
SERVER_STAGES = (
    "parsed",
    "pre_start",
    "pre_end",
    "enqueued",
    "exec_start",
    "prefill_end",
    "first_token",
    "last_token",
    "finished",
)

_NAME = pa.dictionary(pa.int32(), pa.string())
# All *_ns are int64 ns from the run's start on one monotonic clock; null = it did not happen.
SCHEMA = pa.schema(
    [
        pa.field("trace_row", pa.int32(), nullable=False),
        pa.field("copy", pa.int16(), nullable=False),
        pa.field("window", _NAME, nullable=False),
        pa.field("input_tokens_planned", pa.int32()),  # lengths that were asked for
        pa.field("output_tokens_planned", pa.int32()),
        pa.field("planned_ns", pa.int64(), nullable=False),
        pa.field("dispatched_ns", pa.int64()),  # we took it up: our own lateness ends, connecting begins
        pa.field("sent_ns", pa.int64()),  # first byte handed to the socket
        pa.field("headers_ns", pa.int64()),
        pa.field("first_byte_ns", pa.int64()),  # first byte of the answer's body
        pa.field("first_token_ns", pa.int64()),  # first content, reasoning or tool call
        pa.field("first_answer_token_ns", pa.int64()),  # first that is not reasoning
        pa.field("last_token_ns", pa.int64()),
        pa.field("end_ns", pa.int64()),  # the answer, or the failure, was complete
        pa.field("outcome", _NAME, nullable=False),
        pa.field("status_code", pa.int16()),
        pa.field("error", pa.string()),  # bounded, without secrets
        pa.field("finish_reason", _NAME),
        pa.field("prompt_tokens", pa.int32()),  # as the server counted
        pa.field("output_tokens", pa.int32()),
        pa.field("tokens_source", _NAME),  # usage or chunks
        pa.field("num_chunks", pa.int32()),  # token events
        pa.field("num_coalesced", pa.int32()),  # token events that came in the same read as the one before
        pa.field(
            "chunk_gap_us", pa.list_(pa.int32())
        ),  # between successive token events; num_chunks - 1 values
        pa.field("retry_after_s", pa.float32()),  # what a rejecting server asked for
        pa.field("connection_reused", pa.bool_()),
        pa.field("num_reconnects", pa.int8()),  # fresh connections after a kept one died unanswered
        pa.field("num_retries", pa.int8()),  # sent again after a rejection, as asked
        pa.field("released_ns", pa.int64()),  # the former turn of its session had ended; null: no wait for it
        pa.field("phase", _NAME),  # run or warmup
        pa.field("worker", pa.int16(), nullable=False),
        pa.field("server_recv_unix_ns", pa.int64()),  # when the server, by its own clock, had the request
        *(pa.field(f"server_{stage}_us", pa.int64()) for stage in SERVER_STAGES),
        pa.field("server_mean_batch", pa.float32()),
    ]
)
