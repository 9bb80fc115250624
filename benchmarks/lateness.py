"""How late requests reach a server, by the server's own clock, beside what loadgen says of itself.

usage: python benchmarks/lateness.py [--rates 500,2000] [--seconds 60] [--realtime] [--cores 0,1]

A bursty trace (gamma arrivals, coefficient of variation 2): a fifth of the requests in ties of 2 to 10 at one
instant, and one tie of 200. One worker sends it at a loopback server (fast_server.py: 32 events a request, 2 ms
apart) that has a core of its own and notes the kernel's stamp of each request's last bytes. Printed, in ms:
lateness of the server's receipts against schedule.parquet, the same by the client's records, how far they lie
apart at p50, and when the last of the 200 had come; with the worker's CPU seconds per 100,000 events.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from client_speed import Load, fast_server

from loadgen.trace.parquet import write_trace
from loadgen.trace.schema import SCHEMA
from loadgen.trace.trace import Trace, TraceMetadata

TIED_SHARE = 0.2
BIG_TIE = 200
NUM_EVENTS = 32


def bursty_arrivals_ns(rate_per_s: float, seconds: float, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Ascending moments of `rate_per_s * seconds` requests, from 0."""
    count = round(rate_per_s * seconds)
    sizes: list[int] = []
    left_tied, left = round(count * TIED_SHARE) - BIG_TIE, count - BIG_TIE
    while left_tied > 1:
        size = min(int(rng.integers(2, 11)), left_tied)
        sizes.append(size)
        left_tied -= size
        left -= size
    sizes += [1] * left
    groups = rng.permutation(np.array(sizes))
    middle = len(groups) // 2
    groups = np.concatenate([groups[:middle], [BIG_TIE], groups[middle:]])
    gaps = rng.gamma(0.25, 4.0, len(groups))
    moments = np.cumsum(gaps) - gaps[0]
    moments *= seconds * 1e9 / moments[-1]
    return np.repeat(moments.astype(np.int64), groups)


def bursty_trace(load: Load) -> Trace:
    arrivals = bursty_arrivals_ns(
        load.rate_per_s, load.num_requests / load.rate_per_s, np.random.default_rng(1)
    )
    count = len(arrivals)
    given: dict[str, Any] = {
        "arrival_ns": arrivals,
        "input_tokens": np.full(count, 100, np.int32),
        "output_tokens": np.full(count, load.num_events, np.int32),
    }
    columns = [
        pa.array(given[f.name], f.type) if f.name in given else pa.nulls(count, f.type) for f in SCHEMA
    ]
    metadata = TraceMetadata(origin_unix_ns=None, stamp_marks="arrival", arrival_from="made with ties")
    return Trace(pa.Table.from_arrays(columns, schema=SCHEMA), metadata)


def measured(rate_per_s: float, asked: argparse.Namespace) -> dict[str, float]:
    load = Load(rate_per_s, NUM_EVENTS, round(rate_per_s * asked.seconds))
    client_core, server_core = asked.cores
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "trace.parquet"
        write_trace(bursty_trace(load), trace)
        with fast_server(folder, load, server_core) as (url, log):
            flags = ["--realtime"] if asked.realtime else []
            command = [sys.executable, "-m", "loadgen", "replay", str(trace), "--url", url, "--workers", "1"]
            ran = subprocess.run(
                [*command, "--out-dir", str(folder / "runs"), *flags],
                capture_output=True,
                text=True,
                check=False,
                preexec_fn=lambda: os.sched_setaffinity(0, {client_core}),
            )
        if ran.returncode not in (0, 4):
            sys.exit(ran.stderr)
        (run,) = (folder / "runs").iterdir()
        facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
        planned_ns = pq.read_table(run / "schedule.parquet").column("planned_ns").to_numpy()
        records = pq.read_table(run / "requests.parquet", columns=["sent_ns", "planned_ns", "num_chunks"])
        receipts = np.load(log)
    rows, moments = receipts[:, 0], receipts[:, 1] - facts["start_monotonic_ns"]
    late = (moments - planned_ns[rows]) / 1e6
    own = (records.column("sent_ns").to_numpy() - records.column("planned_ns").to_numpy()) / 1e6
    tied = planned_ns[np.argmax(np.convolve(np.diff(planned_ns) == 0, np.ones(BIG_TIE - 1), "valid"))]
    last_of_tie = (moments[planned_ns[rows] == tied].max() - tied) / 1e6
    worker = facts["generator"]["workers"][0]
    events = int(np.asarray(records.column("num_chunks").to_numpy()).sum())
    return {
        "received": float(len(rows)),
        "server p50": float(np.percentile(late, 50)),
        "server p99": float(np.percentile(late, 99)),
        "server max": float(late.max()),
        "own p50": float(np.percentile(own, 50)),
        "own p99": float(np.percentile(own, 99)),
        "apart p50": abs(float(np.percentile(late, 50) - np.percentile(own, 50))),
        f"last of {BIG_TIE}": float(last_of_tie),
        "CPU s/100k": worker["cpu_s"] / events * 100_000,
        "core": worker["cpu_s"] / worker["wall_s"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--rates", type=lambda text: [float(part) for part in text.split(",")], default="500,2000"
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--realtime", action="store_true", help="send with --realtime (needs root)")
    parser.add_argument(
        "--cores",
        type=lambda text: [int(part) for part in text.split(",")],
        default="0,1",
        help="of the client and of the server",
    )
    asked = parser.parse_args()
    figures = {rate: measured(rate, asked) for rate in asked.rates}
    print("".join(f"{cell:>12}" for cell in ("req/s", *next(iter(figures.values())))))
    for rate, facts in figures.items():
        print(f"{rate:>12g}" + "".join(f"{value:>12.3f}" for value in facts.values()))


if __name__ == "__main__":
    main()
