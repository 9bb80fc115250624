"""How long `loadgen compare` takes for two runs of a million requests each, and how much memory.

python benchmarks/compare_speed.py [--requests 1000000]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.plan import schedule
from loadgen.plan.schedule import Schedule, Window
from loadgen.replay.request_record import SCHEMA
from loadgen.replay.run_folder import RunFolder
from loadgen.report.report import build_report, write_report
from loadgen.report.validity import Thresholds

Columns = dict[str, Any]


def table(columns: Columns, schema: pa.Schema, count: int) -> pa.Table:
    arrays = []
    for field in schema:
        value = columns.get(field.name)
        if value is None:
            arrays.append(pa.nulls(count, field.type))
        elif isinstance(value, str):
            arrays.append(
                pa.array([value], pa.string())
                .dictionary_encode()
                .take(pa.array(np.zeros(count, int)))
                .cast(field.type)
            )
        else:
            arrays.append(pa.array(value).cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def make_run(folder: Path, count: int, factor: float, minute: int) -> Path:
    """A run of `count` requests at 1000 a second; ends without token gaps, which no comparison reads."""
    rng = np.random.default_rng(1)
    planned: npt.NDArray[np.int64] = np.arange(count, dtype=np.int64) * 1_000_000
    latency = (rng.lognormal(-1, 0.5, count) * factor * 1e9 * np.exp(0.05 * minute)).astype(np.int64)
    shared = {
        "planned_ns": planned,
        "trace_row": np.arange(count),
        "copy": np.zeros(count, int),
        "window": "baseline",
    }
    lengths = rng.integers(10, 2000, count)
    run = RunFolder.create(folder, f"run-{minute}", datetime.now(UTC))
    rows = table({**shared, "input_tokens": lengths, "output_tokens": lengths // 4}, schedule.SCHEMA, count)
    run.write_schedule(Schedule(rows, (Window("baseline", 0, count * 1_000_000),), "trace", {}))
    zeros, first, last = np.zeros(count, int), planned + latency // 4, planned + latency
    records = {
        **shared, "dispatched_ns": planned, "sent_ns": planned, "first_token_ns": first,
        "first_answer_token_ns": first, "last_token_ns": last, "end_ns": last, "outcome": "ok",
        "status_code": np.full(count, 200), "output_tokens": lengths // 4 + 2, "tokens_source": "usage",
        "num_chunks": zeros + 1, "num_coalesced": zeros, "worker": zeros, "input_tokens_planned": lengths,
        "output_tokens_planned": lengths // 4,
    }  # fmt: skip
    run.write_requests(table(records, SCHEMA, count))
    run.write_facts(
        {
            "run_id": run.path.name, "status": "complete", "started_unix_ns": minute * 60_000_000_000,
            "run_end_ns": count * 1_000_000, "schedule_hash": "h", "trace": {"trace_id": "trace", "name": "t"},
            "target": {"url": "http://h", "dialect": "chat", "facts": None}, "versions": {}, "host": {},
            "settings": {},
        }
    )  # fmt: skip
    write_report(build_report(run, Thresholds()), run)
    return run.path


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="loadgen-") as name:
        base = make_run(Path(name), given.requests, 1.0, 0)
        candidate = make_run(Path(name), given.requests, 1.1, 1)
        started_s = time.monotonic()
        command = [sys.executable, "-m", "loadgen", "compare", str(base), "--to", str(candidate), "--json"]
        done = subprocess.run(command, capture_output=True, check=False)
        took_s = time.monotonic() - started_s
    twins = json.loads(done.stdout)["twins"]["succeeded_on_both"]
    peak_gb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    print(f"{twins} twins compared in {took_s:.1f} s, {peak_gb:.2f} GB at most")


if __name__ == "__main__":
    main()
