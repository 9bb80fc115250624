"""How long and how much memory a report of many requests takes: a made run folder, then the real command."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from loadgen.plan.schedule import SCHEMA as SCHEDULE_SCHEMA
from loadgen.plan.schedule import Schedule, Window
from loadgen.replay.request_record import SCHEMA, SERVER_STAGES
from loadgen.replay.run_folder import RunFolder

RATE = 500.0
TOKENS = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--tokens", type=int, default=TOKENS, help="token events of an answer")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loadgen-") as name:
        folder = make_run(Path(name), given.requests, given.tokens)
        page = Path(name) / "page.html"
        for options in ((), ("--html", str(page))):
            seconds, peak_bytes = measured(
                [sys.executable, "-m", "loadgen", "report", str(folder.path), *options]
            )
            what = "report and page" if options else "report"
            print(
                f"{given.requests} requests, {what}: {seconds:.1f} s, {peak_bytes / 1e9:.2f} GB", flush=True
            )
        print(f"page: {page.stat().st_size / 1e6:.2f} MB")


def measured(command: list[str]) -> tuple[float, int]:
    """(wall seconds, highest resident bytes) of a command."""
    started_s = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) not in (0, 4):
        raise SystemExit(f"{' '.join(command)}: exit code {os.waitstatus_to_exitcode(status)}")
    return time.monotonic() - started_s, usage.ru_maxrss * 1024


def make_run(out_dir: Path, count: int, tokens: int) -> RunFolder:
    """Steady with two peaks; one request in a hundred is refused; every answer tells its stages."""
    rng = np.random.default_rng(0)
    run = RunFolder.create(out_dir, "speed", datetime(2026, 12, 1, tzinfo=UTC))
    length_ns = int(count / RATE * 1e9)
    planned = np.sort(rng.integers(0, length_ns, count))
    edges = [0, *(int(length_ns * place) for place in (0.3, 0.31, 0.34, 0.6, 0.61, 0.64)), length_ns]
    labels = ["baseline", "peak-1", "recovery-1", "baseline", "peak-2", "recovery-2", "baseline"]
    windows = tuple(Window(label, *span) for label, *span in zip(labels, edges[:-1], edges[1:], strict=True))
    place = np.searchsorted(edges[1:], planned, side="right")
    window = np.asarray(labels)[place]
    slow = np.where(np.char.startswith(window, "peak"), 3.0, 1.0)
    first = (rng.lognormal(17.5, 0.4, count) * slow).astype(np.int64)
    gaps = rng.integers(15_000, 25_000, count * (tokens - 1)).astype(np.int32)
    spent = gaps.reshape(count, -1).sum(axis=1).astype(np.int64) * 1000
    is_ok = rng.random(count) > 0.01
    sent = planned + rng.integers(50_000, 300_000, count)
    last = sent + first + spent
    stages = np.linspace(0.01, 0.99, len(SERVER_STAGES))
    given: dict[str, Any] = {
        "trace_row": np.arange(count), "copy": np.zeros(count), "window": window, "worker": np.zeros(count),
        "input_tokens_planned": rng.integers(10, 2000, count), "output_tokens_planned": np.full(count, tokens),
        "planned_ns": planned, "dispatched_ns": sent - 10_000, "sent_ns": sent,
        "outcome": np.where(is_ok, "ok", "rejected"), "status_code": np.where(is_ok, 200, 429),
        "end_ns": np.where(is_ok, last + 100_000, sent + 900_000), "connection_reused": np.ones(count, bool),
    }  # fmt: skip
    of_ok: dict[str, Any] = {
        "headers_ns": sent + first, "first_byte_ns": sent + first, "first_token_ns": sent + first,
        "first_answer_token_ns": sent + first, "last_token_ns": last, "output_tokens": np.full(count, tokens),
        "prompt_tokens": given["input_tokens_planned"], "num_chunks": np.full(count, tokens),
        "num_coalesced": np.zeros(count), "tokens_source": np.full(count, "usage"),
        "finish_reason": np.full(count, "length"), "server_mean_batch": rng.uniform(1, 8, count),
        "server_recv_unix_ns": 1_796_083_200_000_000_000 + sent + 100_000,
        **{f"server_{stage}_us": ((last - sent) * share / 1e3).astype(np.int64)
           for stage, share in zip(SERVER_STAGES, stages, strict=True)},
    }  # fmt: skip
    arrays = []
    for field in SCHEMA:
        if field.name == "chunk_gap_us":
            offsets = np.arange(count + 1, dtype=np.int32) * (tokens - 1)
            arrays.append(pa.ListArray.from_arrays(pa.array(offsets), pa.array(gaps)))
        elif field.name == "error":
            arrays.append(
                pa.array(["HTTP 429: the queue is full"]).take(pa.array(np.zeros(count, np.int8), mask=is_ok))
            )
        elif field.name in given or field.name in of_ok:
            values = given[field.name] if field.name in given else of_ok[field.name]
            mask = None if field.name in given else ~is_ok
            kind = pa.string() if pa.types.is_dictionary(field.type) else None
            array = pa.array(values, kind, mask=mask)
            arrays.append(
                array.dictionary_encode().cast(field.type) if kind else array.cast(field.type, safe=False)
            )
        else:
            arrays.append(pa.nulls(count, field.type))
    run.write_requests(pa.Table.from_arrays(arrays, schema=SCHEMA))
    columns = {
        "planned_ns": planned,
        "trace_row": np.arange(count),
        "copy": np.zeros(count),
        "window": window,
    }
    schedule = pa.Table.from_arrays(
        [
            pa.array(columns[field.name]).dictionary_encode().cast(field.type)
            if pa.types.is_dictionary(field.type) and field.name in columns
            else pa.array(columns[field.name]).cast(field.type, safe=False)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in SCHEDULE_SCHEMA
        ],
        schema=SCHEDULE_SCHEMA,
    )
    run.write_schedule(Schedule(schedule, windows, "trace-id", {}))
    run.write_facts(
        {
            "run_id": "speed", "name": "speed", "status": "complete", "exit_reason": None, "settings": {},
            "seed": 0, "started_utc": "2026-12-01T00:00:00+00:00", "started_unix_ns": 1_796_083_200_000_000_000,
            "run_end_ns": length_ns, "command": ["loadgen"], "shape": {}, "schedule_hash": "hash", "host": {},
            "trace": {"name": "t.parquet", "trace_id": "trace-id", "rows": count}, "versions": {"loadgen": "0"},
            "target": {"url": "http://127.0.0.1:8000", "model": "m", "dialect": "chat", "facts": None},
            "generator": {"workers": [], "lost": []}, "warnings": [],
        }
    )  # fmt: skip
    return run


if __name__ == "__main__":
    main()
