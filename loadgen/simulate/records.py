"""What was simulated as the records and samples of a run, as the client of a live server would have kept them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.plan.prompts import CHARS_PER_TOKEN, PromptMaker
from loadgen.plan.schedule import Schedule
from loadgen.replay.request_record import SCHEMA, SERVER_STAGES, Outcome, Phase
from loadgen.simulate.cost_model import CostModel
from loadgen.simulate.served import INVALID, OK, REJECTED, TIMEOUT, Arrivals, Served
from loadgen.simulate.steps import Numbers, counters_at
from loadgen.telemetry.samples import SCHEMA as SAMPLES

Mask = npt.NDArray[np.bool_]

# What the bundled server takes where a request names no length of its answer (chat).
_DEFAULT_OUTPUT = 128
_SAMPLE_NS = 500_000_000
_MAX_SAMPLES = 20_000
_SOURCE = "server"
_OUTCOMES = (Outcome.OK, Outcome.REJECTED, Outcome.HTTP_ERROR, Outcome.STREAM_ERROR)
_ERRORS = (
    "simulated: the queue was full",
    "simulated: the request ran out of time",
    "simulated: longer than the model's context",
)


def arrivals_of(schedule: Schedule, cost: CostModel, prompts: PromptMaker) -> Arrivals:
    """The schedule as the engine meets it: a token is a character, as it is for the bundled server."""
    table = schedule.table
    tokens = table.column("output_tokens").cast(pa.int64())
    texts = pc.coalesce(table.column("output_chars"), table.column("output_bytes")).cast(pa.int64())
    from_text = pc.divide(pc.add(texts, CHARS_PER_TOKEN - 1), CHARS_PER_TOKEN)
    outputs = pc.max_element_wise(pc.coalesce(tokens, from_text, _DEFAULT_OUTPUT), 1)
    return Arrivals(
        schedule.planned_ns + round(cost.receive_us * 1e3),
        prompts.lengths(table),
        np.asarray(outputs.to_numpy(), dtype=np.int64),
    )


def records_of(
    schedule: Schedule,
    arrivals: Arrivals,
    served: Served,
    cost: CostModel,
    *,
    preprocess_ns: int,
    rejected: int,
) -> pa.Table:
    """One record a request, in the schedule's order. rejected: the status code of a refusal."""
    table = schedule.table
    planned = schedule.planned_ns
    reply = round(cost.reply_us * 1e3)
    status, first = served.status, served.first_token_ns
    is_ok, has_first = status == OK, first >= 0
    # The only token of an answer leaves with its end, which may wait for the batch.
    is_single = has_first & (arrivals.output_tokens == 1)
    streams = _streams(table)
    seen_first = has_first & streams & ~(is_single & ~is_ok)
    first_seen = np.where(is_single, served.ended_ns, first) + reply
    ended = served.ended_ns + reply
    is_late = status == TIMEOUT
    breaks = is_late & seen_first
    outcome = np.select([is_ok, status == REJECTED, breaks], [0, 1, 3], 2)
    codes = np.select([is_ok | breaks, status == REJECTED, is_late], [200, rejected, 504], 400)
    has_tokens = is_ok | breaks
    made = np.maximum(served.output_tokens, 1)
    events = np.where(seen_first, made, 0)
    gaps, sums_us = _gaps(served, events, first_seen, ended, reply, is_ok)
    last_seen = np.where(is_ok, ended, first_seen + sums_us * 1000)

    def when(mask: Mask, values: Any) -> pa.Array:
        return pa.array(values, mask=~mask)

    answered = is_ok & ~streams
    error = np.select([status == REJECTED, is_late, status == INVALID], [0, 1, 2], -1)
    given: dict[str, Any] = {
        "trace_row": table.column("trace_row"),
        "copy": table.column("copy"),
        "window": table.column("window"),
        "input_tokens_planned": table.column("input_tokens"),
        "output_tokens_planned": table.column("output_tokens"),
        "planned_ns": planned,
        "dispatched_ns": planned,
        "sent_ns": planned,
        "headers_ns": np.where(seen_first, first_seen, ended),
        "first_byte_ns": np.where(seen_first, first_seen, ended),
        "first_token_ns": when(seen_first, first_seen),
        "first_answer_token_ns": when(seen_first, first_seen),
        "last_token_ns": when(seen_first | answered, np.where(answered, ended, last_seen)),
        "end_ns": ended,
        "outcome": _named([one.value for one in _OUTCOMES], outcome),
        "status_code": codes,
        "error": _named(list(_ERRORS), error, missing=error < 0).cast(pa.string()),
        "finish_reason": _named(["length"], np.zeros(len(status), dtype=np.int32), missing=~is_ok),
        "prompt_tokens": when(is_ok, arrivals.prompt_tokens),
        "output_tokens": when(has_tokens, made),
        "tokens_source": _named(["usage", "chunks"], breaks.astype(np.int32), missing=~has_tokens),
        "num_chunks": when(has_tokens & streams, events),
        "num_coalesced": when(has_tokens & streams, np.zeros(len(status), dtype=np.int32)),
        "chunk_gap_us": gaps,
        "phase": _named([Phase.RUN.value], np.zeros(len(status), dtype=np.int32)),
        "worker": np.zeros(len(status), dtype=np.int16),
    }
    stages = _stages(served, planned, preprocess_ns)
    given |= {f"server_{name}_us": when(is_ok, (moment - planned) // 1000) for name, moment in stages.items()}
    steps = np.maximum(made, 1)
    given["server_mean_batch"] = when(is_ok, (served.batch_sum / steps).astype(np.float32))
    columns = [_column(given.get(field.name), field, len(status)) for field in SCHEMA]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def telemetry_of(arrivals: Arrivals, served: Served) -> pa.Table:
    """The gauges and counters that the server's /metrics would have told, at even moments."""
    length_ns = max(served.length_ns, int(served.ended_ns.max(initial=0)), 1)
    every_ns = max(_SAMPLE_NS, -(-length_ns // _MAX_SAMPLES))
    moments = np.arange(0, length_ns + every_ns, every_ns, dtype=np.int64)
    taken = served.status != INVALID
    taken &= served.status != REJECTED
    started = np.where(served.exec_start_ns >= 0, served.exec_start_ns, served.ended_ns)
    has_run = served.exec_start_ns >= 0
    received = _count(arrivals.received_ns[taken], moments)
    waiting = received - _count(started[taken], moments)
    running = _count(served.exec_start_ns[has_run], moments) - _count(served.ended_ns[has_run], moments)
    counters = counters_at(list(served.stretches), served.prefills, moments)
    series = {
        "vllm:num_requests_waiting": waiting,
        "vllm:num_requests_running": running,
        "loadgen_target:rows_total": counters.rows,
        "loadgen_target:useful_rows_total": counters.useful_rows,
        "loadgen_target:step_busy_seconds_total": counters.busy_s,
    }
    count = moments.size
    names = np.repeat(np.arange(len(series), dtype=np.int32), count)
    return pa.Table.from_arrays(
        [
            pa.array(np.tile(moments, len(series))),
            _named([_SOURCE], np.zeros(count * len(series), dtype=np.int32)),
            _named(list(series), names),
            pa.array(np.concatenate([np.asarray(values, dtype=np.float64) for values in series.values()])),
        ],
        schema=SAMPLES,
    )


def _stages(served: Served, planned: Numbers, preprocess_ns: int) -> dict[str, Numbers]:
    """Each stage's moment by its name; the time before the queue is the reception's, save the preprocessing."""
    prepared = served.enqueued_ns
    began = np.maximum(prepared - preprocess_ns, planned)
    moments = (
        np.minimum(began, prepared), began, prepared, prepared, served.exec_start_ns, served.first_token_ns,
        served.first_token_ns, served.last_token_ns, served.ended_ns,
    )  # fmt: skip
    return dict(zip(SERVER_STAGES, moments, strict=True))


def _gaps(
    served: Served, events: Numbers, first_seen: Numbers, ended: Numbers, reply: int, is_ok: Mask
) -> tuple[pa.ListArray, Numbers]:
    """us between token events of each answer, null for one without any; and their sum, 0 for one without gaps.

    All moments are rounded to us before they are subtracted, so that sums hold.
    """
    counts = np.maximum(events - 1, 0)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    ends = [stretches.ends_ns() for stretches in served.stretches]
    sizes = np.asarray([part.size for part in ends])
    # Where the steps of each batch begin in the steps of all; the answer's own begin `joined` behind.
    begins = (np.cumsum(sizes) - sizes)[served.batch] + served.joined
    steps = np.repeat(begins - offsets[:-1], counts)
    steps += np.arange(steps.size)
    moments = ((np.concatenate(ends) + reply) // 1000)[steps]
    some = counts > 0
    firsts, lasts, before = offsets[:-1][some], offsets[1:][some] - 1, first_seen[some] // 1000
    # The last event carries the end of the answer, and leaves with it.
    moments[offsets[1:][some & is_ok] - 1] = ended[some & is_ok] // 1000
    gaps = np.empty(moments.size, dtype=np.int32)
    gaps[1:] = moments[1:] - moments[:-1]
    gaps[firsts] = moments[firsts] - before
    sums = np.zeros(counts.size, dtype=np.int64)
    sums[some] = moments[lasts] - before
    return (
        pa.ListArray.from_arrays(
            pa.array(offsets.astype(np.int32)), pa.array(gaps), mask=pa.array(events == 0)
        ),
        sums,
    )


def _streams(table: pa.Table) -> Mask:
    """Whether each is asked for as a stream: yes where the trace is silent."""
    return np.asarray(pc.fill_null(table.column("stream"), True).to_numpy(zero_copy_only=False), dtype=bool)


def _count(moments: Numbers, at: Numbers) -> Numbers:
    return np.asarray(np.searchsorted(np.sort(moments), at, side="right"), dtype=np.int64)


def _named(names: list[str], codes: Any, missing: Mask | None = None) -> pa.DictionaryArray:
    indices = pa.array(
        np.where(missing, 0, codes) if missing is not None else codes, pa.int32(), mask=missing
    )
    return pa.DictionaryArray.from_arrays(indices, pa.array(names))


def _column(values: Any, field: pa.Field, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, field.type)
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.unify_dictionaries().chunks) if values.num_chunks else pa.array([])
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return array.cast(field.type)
