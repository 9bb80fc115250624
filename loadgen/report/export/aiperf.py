"""Files as AIPerf writes them: a summary with a block of statistics a metric, and a record a line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from loadgen.replay.request_record import SERVER_STAGES, Outcome
from loadgen.report.export.statistics import deviation, known, mean, ranks
from loadgen.report.figures import Floats
from loadgen.report.recorded_run import RecordedRun
from loadgen.report.report import Report

SUMMARY_NAME = "profile_export_aiperf.json"
RECORDS_NAME = "profile_export.jsonl"
# The form of the summary that these fields are of.
_SCHEMA_VERSION = "1.4"
_PERCENTS = (1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0)
_PART = 8192
# Our metric by theirs, all in ms. Theirs count from the send; the last two are ours.
_TIMES = (
    ("request_latency", "service_latency"),
    ("time_to_first_token", "service_ttft"),
    ("inter_token_latency", "tpot"),
    ("loadgen_latency_from_planned", "latency"),
    ("loadgen_lateness", "lateness"),
)


def as_aiperf_summary(report: Report, run: RecordedRun) -> dict[str, Any]:
    """The document of profile_export_aiperf.json. Fields without a value are left out, as there."""
    facts, seen = report.facts, run.seen
    target = facts.get("target") or {}
    started = _moment(facts.get("started_utc"))
    blocks: dict[str, Any] = {
        name: _block("ms", np.where(seen.is_ok, seen.per_request[metric], np.nan) * 1e3)
        for name, metric in _TIMES
    }
    prompt = np.where(seen.is_ok, seen.numbers("prompt_tokens"), np.nan)
    output = np.where(seen.is_ok, seen.numbers("output_tokens"), np.nan)
    blocks["inter_chunk_latency"] = _block("ms", np.asarray(seen.chunk_gaps_us(), dtype=np.float64) / 1e3)
    blocks["input_sequence_length"] = _block("tokens", prompt)
    blocks["output_sequence_length"] = _block("tokens", output)
    duration_s = run.run_end_s
    unsent = report.count(Outcome.NOT_SENT) + report.count(Outcome.UNRECORDED)
    failed = report.planned - report.num_ok - unsent
    scalars = {
        "request_count": ("requests", float(report.num_ok)),
        "error_request_count": ("requests", float(failed)),
        "completed_request_count": ("requests", float(report.num_ok + failed)),
        "benchmark_duration": ("sec", duration_s),
        "request_throughput": ("requests/sec", _rate(report.num_ok, duration_s)),
        "output_token_throughput": ("tokens/sec", _rate(known(output).sum(), duration_s)),
        "total_token_throughput": (
            "tokens/sec",
            _rate(known(output).sum() + known(prompt).sum(), duration_s),
        ),
        "loadgen_offered_rate": ("requests/sec", report.measured[0].value("offered_rate")),
    }
    blocks |= {
        name: {"unit": unit, "avg": value} for name, (unit, value) in scalars.items() if value is not None
    }
    return {
        "schema_version": _SCHEMA_VERSION,
        "benchmark_id": facts.get("run_id"),
        **{name: block for name, block in blocks.items() if block is not None},
        "input_config": {
            "models": {"items": [{"name": target.get("model")}]},
            "endpoint": {"type": target.get("dialect"), "urls": [target.get("url")], "streaming": True},
            "phases": [
                {"name": "profiling", "type": "fixed_schedule", "requests": report.planned,
                 "rate": report.measured[0].value("offered_rate")}
            ],
        },
        "was_cancelled": report.status == "interrupted",
        "is_complete": report.status == "complete" and report.validity.is_valid,
        **({} if report.validity.is_valid else {"incomplete_reason": "; ".join(report.validity.reasons)}),
        "error_summary": [
            {"error_details": {"type": one.name, "message": one.examples[0] if one.examples else one.name},
             "count": one.count}
            for one in report.outcomes
            if one.name != Outcome.OK
        ],
        **({} if started is None else {
            "start_time": started.isoformat(),
            "end_time": (started + timedelta(seconds=duration_s)).isoformat(),
        }),
    }  # fmt: skip


def aiperf_records(run: RecordedRun) -> Iterator[bytes]:
    """A line for each request that was sent, in planned order, with times on the wall clock in ns."""
    start_ns = int(run.facts.get("started_unix_ns") or 0)
    records, metrics = run.seen.records, run.seen.per_request
    for start in range(0, records.num_rows, _PART):
        part = records.slice(start, _PART)
        times = {name: np.round(metrics[metric][start : start + _PART] * 1e3, 6) for name, metric in _TIMES}
        for place, row in enumerate(_rows(part)):
            if row["sent_ns"] is not None:
                own = {name: float(values[place]) for name, values in times.items()}
                yield orjson.dumps(_record(row, start + place, own, start_ns)) + b"\n"


def _rows(part: pa.Table) -> Iterator[dict[str, Any]]:
    names = [name for name in part.column_names if name != "chunk_gap_us"]
    columns = [part.column(name).to_pylist() for name in names]
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _record(row: dict[str, Any], number: int, times_ms: dict[str, float], start_ns: int) -> dict[str, Any]:
    end_ns = row["end_ns"] if row["end_ns"] is not None else row["sent_ns"]
    is_cancelled = row["outcome"] == Outcome.UNFINISHED
    metrics = {
        name: {"value": value, "unit": "ms"} for name, value in times_ms.items() if not math.isnan(value)
    }
    for name, column in (
        ("input_sequence_length", "prompt_tokens"),
        ("output_sequence_length", "output_tokens"),
    ):
        if row[column] is not None:
            metrics[name] = {"value": row[column], "unit": "tokens"}
    for stage in SERVER_STAGES:
        if row[f"server_{stage}_us"] is not None:
            metrics[f"loadgen_server_{stage}"] = {"value": row[f"server_{stage}_us"] / 1e3, "unit": "ms"}
    is_ok = row["outcome"] == Outcome.OK
    return {
        "metadata": {
            "session_num": number,
            "x_request_id": f"{row['trace_row']}-{row['copy']}",
            "x_correlation_id": None,
            "conversation_id": None,
            "turn_index": 0,
            "credit_issued_ns": start_ns + row["planned_ns"],
            "request_start_ns": start_ns + row["sent_ns"],
            "request_ack_ns": None if row["headers_ns"] is None else start_ns + row["headers_ns"],
            "request_end_ns": start_ns + end_ns,
            "worker_id": f"worker_{row['worker']}",
            "record_processor_id": "loadgen",
            "benchmark_phase": "profiling",
            "was_cancelled": is_cancelled,
            "cancellation_time_ns": start_ns + end_ns if is_cancelled else None,
            "scheduled_ns": start_ns + row["planned_ns"],
            "lateness_ns": row["sent_ns"] - row["planned_ns"],
            "window": row["window"],
        },
        "metrics": metrics,
        "error": None
        if is_ok
        else {"code": row["status_code"], "type": row["outcome"], "message": row["error"] or row["outcome"]},
    }


def _block(unit: str, values: Floats) -> dict[str, Any] | None:
    found = known(values)
    if found.size == 0:
        return None
    block: dict[str, Any] = {"unit": unit, "avg": mean(found)}
    block |= {
        f"p{percent:g}": value
        for percent, value in zip(_PERCENTS, ranks(found, list(_PERCENTS)), strict=True)
    }
    block |= {"min": float(found.min()), "max": float(found.max())}
    spread = deviation(found, ddof=1)
    if spread is not None:
        block["std"] = spread
    return block | {"count": int(found.size), "sum": float(found.sum())}


def _rate(amount: float, duration_s: float) -> float | None:
    return float(amount) / duration_s if duration_s > 0 else None


def _moment(started_utc: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(str(started_utc))
    except ValueError:
        return None
