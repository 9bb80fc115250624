"""The result file of `vllm bench serve --save-result`, which many scripts and gates read."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.report.export.statistics import deviation, mean, most_at_once, ranks
from loadgen.report.figures import Floats
from loadgen.report.recorded_run import RecordedRun
from loadgen.report.report import Report

# Our metric by the file's. There, times count from the send; the wait before it has fields of its own.
_TIMES = (
    ("ttft", "service_ttft"),
    ("tpot", "tpot"),
    ("itl", "chunk_gap"),
    ("e2el", "service_latency"),
    ("client_queue_time", "lateness"),
    ("e2el_including_client_queue", "latency"),
)
_PERCENTS = (25.0, 50.0, 75.0, 90.0, 95.0, 99.0)


def as_vllm_json(report: Report, run: RecordedRun, *, detailed: bool = False) -> dict[str, Any]:
    """The flat document; null where a value is not known. detailed: lists with an entry a request, too.

    Percentiles are ours (nearest rank). Times and means are of successes; duration ends with the run.
    """
    facts, seen = report.facts, run.seen
    target, settings = facts.get("target") or {}, facts.get("settings") or {}
    overall = report.measured[0]
    duration_s = run.run_end_s
    asked = _input_tokens(run)
    tokens_in, tokens_out = _total(asked[seen.is_ok]), _total(seen.numbers("output_tokens")[seen.is_ok])
    completed = report.num_ok
    good = overall.value("goodput")
    document: dict[str, Any] = {
        "date": _date(facts.get("started_utc")),
        "backend": "openai-chat" if target.get("dialect") == "chat" else target.get("dialect"),
        "endpoint_type": target.get("dialect"),
        "label": facts.get("name"),
        "model_id": target.get("model"),
        "tokenizer_id": None,
        "num_prompts": report.planned,
        "request_rate": overall.value("offered_rate"),
        "burstiness": settings.get("burstiness"),
        "max_concurrency": settings.get("max_concurrency"),
        "duration": duration_s,
        "completed": completed,
        "failed": report.planned - completed,
        "total_input_tokens": tokens_in,
        "total_output_tokens": tokens_out,
        "request_throughput": _rate(completed, duration_s),
        "request_goodput": None if good is None else _rate(good * report.planned, duration_s),
        "output_throughput": _rate(tokens_out, duration_s),
        "total_token_throughput": None
        if tokens_in is None or tokens_out is None
        else _rate(tokens_in + tokens_out, duration_s),
        "max_output_tokens_per_s": max(
            (rate for rate in report.timeline.series["tokens"] if rate is not None), default=None
        ),
        "max_concurrent_requests": _most_in_flight(run),
        # What a reader of other runs must know before it compares.
        "loadgen_run_id": facts.get("run_id"),
        "loadgen_simulated": bool(facts.get("simulated")),
        "loadgen_valid": report.validity.is_valid,
        "loadgen_schedule_hash": facts.get("schedule_hash"),
    }
    for name, metric in _TIMES:
        values_ms: Floats = (
            np.asarray(seen.chunk_gaps_us(), dtype=np.float64) / 1e3
            if metric == "chunk_gap"
            else np.where(seen.is_ok, seen.per_request[metric], np.nan) * 1e3
        )
        document[f"mean_{name}_ms"] = mean(values_ms)
        document[f"std_{name}_ms"] = deviation(values_ms)
        found = dict(zip(_PERCENTS, ranks(values_ms, list(_PERCENTS)), strict=True))
        document[f"median_{name}_ms"] = found[50.0]
        document |= {f"p{percent:g}_{name}_ms": value for percent, value in found.items()}
    return document | (_details(run, asked) if detailed else {})


def _details(run: RecordedRun, asked: Floats) -> dict[str, Any]:
    """Lists over all requests in planned order, in seconds; a failure has an empty error only if it succeeded."""
    seen = run.seen
    gaps = pc.if_else(pa.array(seen.is_ok), seen.records.column("chunk_gap_us"), None).to_pylist()
    errors = seen.records.column("error").to_pylist()
    return {
        "input_lens": _list(asked),
        "output_lens": _list(seen.numbers("output_tokens")),
        "ttfts": _list(seen.per_request["service_ttft"]),
        "itls": [[gap / 1e6 for gap in one or ()] for one in gaps],
        "latencies": _list(seen.per_request["service_latency"]),
        "start_times": _list(seen.sent_s),
        "queue_times": _list(seen.per_request["lateness"]),
        "errors": [
            "" if is_ok else (text or outcome)
            for is_ok, text, outcome in zip(seen.is_ok, errors, seen.outcome, strict=True)
        ],
    }


def _input_tokens(run: RecordedRun) -> Floats:
    """As the server counted, else as planned."""
    told, planned = run.seen.numbers("prompt_tokens"), run.seen.numbers("input_tokens_planned")
    return np.where(np.isnan(told), planned, told)


def _most_in_flight(run: RecordedRun) -> int:
    sent_s, end_s = run.seen.sent_s, run.seen.seconds("end_ns")
    both = ~np.isnan(sent_s)
    return most_at_once(sent_s[both], np.where(np.isnan(end_s[both]), run.run_end_s, end_s[both]))


def _total(values: Floats) -> int | None:
    """None where any is unknown: a sum over some would pass for the whole."""
    return None if values.size == 0 or np.isnan(values).any() else int(values.sum())


def _rate(amount: float | None, duration_s: float) -> float | None:
    return None if amount is None or not duration_s > 0 else amount / duration_s


def _list(values: Floats) -> list[float | int | None]:
    return [
        None if math.isnan(value) else int(value) if value.is_integer() else value
        for value in values.tolist()
    ]


def _date(started_utc: Any) -> str | None:
    try:
        return datetime.fromisoformat(str(started_utc)).strftime("%Y%m%d-%H%M%S")
    except ValueError:
        return None
