"""Whether a worker's memory stays flat over a million short requests.

usage: python benchmarks/flat_memory.py [--requests 1000000] [--rate 2000] [--workers 2]

The real command sends a trace of a thousand rows, repeated, at loadgen's null server (one event an answer). Each
worker's resident memory is read every 5 s; printed is what it was at the end of the first minute, the most it was
after that, and what it was in the end.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

from loadgen.replay.null_server import null_server_main
from loadgen.trace.parquet import write_trace
from loadgen.trace.schema import SCHEMA
from loadgen.trace.trace import Trace, TraceMetadata

ROWS = 1000
EVERY_S = 5.0
FIRST_S = 60.0


def short_requests(rate_per_s: float) -> Trace:
    given: dict[str, Any] = {
        "arrival_ns": (np.arange(ROWS) * (1e9 / rate_per_s)).astype(np.int64),
        "input_tokens": np.full(ROWS, 20, np.int32),
        "output_tokens": np.ones(ROWS, np.int32),
    }
    columns = [pa.array(given[f.name], f.type) if f.name in given else pa.nulls(ROWS, f.type) for f in SCHEMA]
    metadata = TraceMetadata(origin_unix_ns=None, stamp_marks="arrival", arrival_from="evenly spaced")
    return Trace(pa.Table.from_arrays(columns, schema=SCHEMA), metadata)


def worker_memory(command: psutil.Process) -> dict[int, float]:
    """Resident MB of each worker process, by its id."""
    found: dict[int, float] = {}
    for child in command.children():
        try:
            if any("spawn_main" in word for word in child.cmdline()):
                found[child.pid] = child.memory_info().rss / 1e6
        except psutil.Error:
            continue
    return found


def watch(command: subprocess.Popen[bytes], length_s: float) -> dict[int, list[tuple[float, float]]]:
    """(seconds since the workers began to send, MB) of each worker, until the command ends."""
    seen: dict[int, list[tuple[float, float]]] = {}
    process = psutil.Process(command.pid)
    start_s = time.monotonic()
    while command.poll() is None:
        time.sleep(EVERY_S)
        try:
            memory = worker_memory(process)
        except psutil.Error:
            break
        for pid, megabytes in memory.items():
            seen.setdefault(pid, []).append((time.monotonic() - start_s, megabytes))
        if int(time.monotonic() - start_s) % 60 < EVERY_S:
            shown = ", ".join(f"{megabytes:.1f}" for megabytes in memory.values())
            print(f"{time.monotonic() - start_s:.0f} s of {length_s:.0f}: {shown} MB", file=sys.stderr)
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--rate", type=float, default=2000.0)
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=null_server_main, args=((1,), theirs), daemon=True)
    server.start()
    theirs.close()
    url = f"http://127.0.0.1:{ours.recv()[1]}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = folder / "trace.parquet"
        write_trace(short_requests(asked.rate), trace)
        words = ["replay", trace, "--url", url, "--model", "null", "--workers", asked.workers, "--json"]
        words += ["--repeat", -(-asked.requests // ROWS), "--out-dir", folder / "runs"]
        with (folder / "report.json").open("wb") as out:
            command = subprocess.Popen(
                [sys.executable, "-m", "loadgen", *map(str, words)], stdout=out, stderr=subprocess.DEVNULL
            )
            seen = watch(command, asked.requests / asked.rate)
        report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
        (run,) = (folder / "runs").iterdir()
        facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
    ours.close()
    server.join(5)
    show(seen)
    print(f"run: {facts['status']}, {facts['run_end_ns'] / 1e9:.0f} s; requests: {report['requests']}")


def show(seen: dict[int, list[tuple[float, float]]]) -> None:
    print(f"{'worker':>8}{'MB at 60 s':>12}{'most after':>12}{'at the end':>12}{'growth':>8}")
    for number, samples in enumerate(seen.values()):
        later = [megabytes for at_s, megabytes in samples if at_s >= FIRST_S]
        if later:
            print(
                f"{number:>8}{later[0]:>12.1f}{max(later):>12.1f}{later[-1]:>12.1f}{max(later) - later[0]:>8.1f}"
            )


if __name__ == "__main__":
    main()
