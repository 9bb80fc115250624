"""What the generator costs and how late it is, beside plain httpx and aiohttp on the same load in one run.

usage: python benchmarks/client_speed.py [--rate 500] [--plain-rate 50] [--seconds 10] [--rounds 3]

A fast loopback server (fast_server.py) streams the answers and notes when it had each request. In each round
the clients take turns. The plain ones get a tenth of the rate, which one core of theirs can carry: at the full
rate they fall behind until requests time out. Printed: medians over the rounds of CPU seconds per 100,000
events, share of one core, lateness as the client and as the server saw it (ms), and the ratio of CPU per event
to loadgen's. The plain clients read lines and parse JSON, as the simplest correct program would, and record one
stamp an event.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.trace.parquet import write_trace
from loadgen.trace.schema import SCHEMA
from loadgen.trace.trace import Trace, TraceMetadata

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Load:
    """Evenly spaced requests."""

    rate_per_s: float
    num_events: int
    num_requests: int


@dataclass(frozen=True, slots=True)
class Figures:
    """One client in one round. Lateness in ms: at the server p50 and p99, and p99 by loadgen's own records."""

    cpu_s: float
    wall_s: float
    num_events: int
    lateness_p50_ms: float
    lateness_p99_ms: float
    own_p99_ms: float | None = None

    @property
    def cpu_s_per_100k_events(self) -> float:
        return self.cpu_s / self.num_events * 100_000


@contextmanager
def fast_server(folder: Path, load: Load, core: int | None = None) -> Iterator[tuple[str, Path]]:
    """The server in a process of its own, on `core`; its receipts are complete when the context has ended."""
    ready, log = folder / "url.txt", folder / "receipts.npy"
    ready.unlink(missing_ok=True)
    process = subprocess.Popen(
        [
            sys.executable,
            str(HERE / "fast_server.py"),
            "--events",
            str(load.num_events),
            "--log",
            str(log),
            "--ready-file",
            str(ready),
            *([] if core is None else ["--core", str(core)]),
        ]
    )
    try:
        while not ready.is_file() or not ready.read_text(encoding="utf-8"):
            time.sleep(0.05)
        yield ready.read_text(encoding="utf-8"), log
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def lateness_ms(log: Path, start_monotonic_ns: int, load: Load) -> tuple[float, float]:
    receipts = np.load(log)
    planned_ns = start_monotonic_ns + (receipts[:, 0] * (1e9 / load.rate_per_s)).astype(np.int64)
    late = (receipts[:, 1] - planned_ns) / 1e6
    return float(np.percentile(late, 50)), float(np.percentile(late, 99))


def with_loadgen(folder: Path, load: Load, *, realtime: bool) -> Figures:
    """The real command."""
    trace = folder / "trace.parquet"
    write_trace(even_trace(load), trace)
    with fast_server(folder, load) as (url, log):
        subprocess.run(
            [
                sys.executable,
                "-m",
                "loadgen",
                "replay",
                str(trace),
                "--url",
                url,
                "--out-dir",
                str(folder / "runs"),
                *(["--realtime"] if realtime else []),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    (run,) = sorted((folder / "runs").iterdir())[-1:]
    facts = json.loads((run / "run.json").read_text(encoding="utf-8"))
    worker = facts["generator"]["workers"][0]
    records = pq.read_table(run / "requests.parquet", columns=["num_chunks", "sent_ns", "planned_ns"])
    chunks = np.asarray(records.column("num_chunks").fill_null(0).to_numpy())
    p50_ms, p99_ms = lateness_ms(log, facts["start_monotonic_ns"], load)
    own_ms = (records.column("sent_ns").to_numpy() - records.column("planned_ns").to_numpy()) / 1e6
    own_p99_ms = float(np.percentile(own_ms, 99))
    return Figures(worker["cpu_s"], worker["wall_s"], int(chunks.sum()), p50_ms, p99_ms, own_p99_ms)


def even_trace(load: Load) -> Trace:
    count = load.num_requests
    given: dict[str, Any] = {
        "arrival_ns": (np.arange(count) * (1e9 / load.rate_per_s)).astype(np.int64),
        "input_tokens": np.full(count, 100, np.int32),
        "output_tokens": np.full(count, load.num_events, np.int32),
    }
    columns = [
        pa.array(given[f.name], f.type) if f.name in given else pa.nulls(count, f.type) for f in SCHEMA
    ]
    metadata = TraceMetadata(origin_unix_ns=None, stamp_marks="arrival", arrival_from="evenly spaced")
    return Trace(pa.Table.from_arrays(columns, schema=SCHEMA), metadata)


BODY = {
    "model": "fast",
    "messages": [{"role": "user", "content": "word " * 100}],
    "max_tokens": 32,
    "stream": True,
}
SendOne = Callable[[str, int, list[int]], Coroutine[Any, Any, None]]


async def open_loop(send_one: SendOne, url: str, load: Load) -> tuple[int, list[list[int]]]:
    """Plain asyncio pacing: sleep until each moment, start a task."""
    start_ns = time.monotonic_ns() + 100_000_000
    stamps: list[list[int]] = [[] for _ in range(load.num_requests)]
    tasks: list[asyncio.Task[None]] = []
    for row in range(load.num_requests):
        due_ns = start_ns + int(row * (1e9 / load.rate_per_s))
        delay_s = (due_ns - time.monotonic_ns()) / 1e9
        if delay_s > 0:
            await asyncio.sleep(delay_s)
        tasks.append(asyncio.create_task(send_one(url, row, stamps[row])))
    await asyncio.gather(*tasks)
    return start_ns, stamps


def take_line(line: str, stamps: list[int]) -> None:
    if line.startswith("data: ") and line != "data: [DONE]":
        stamp = time.monotonic_ns()
        choices = json.loads(line[6:])["choices"]
        if choices and choices[0]["delta"].get("content"):
            stamps.append(stamp)


async def run_httpx(url: str, load: Load) -> tuple[int, list[list[int]]]:
    import httpx

    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=60, trust_env=False) as client:

        async def send_one(_: str, row: int, stamps: list[int]) -> None:
            headers = {"X-Request-Id": f"bench-{row}-0"}
            async with client.stream("POST", "/v1/chat/completions", json=BODY, headers=headers) as answer:
                async for line in answer.aiter_lines():
                    take_line(line, stamps)

        return await open_loop(send_one, url, load)


async def run_aiohttp(url: str, load: Load) -> tuple[int, list[list[int]]]:
    import aiohttp

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(url, connector=connector) as client:

        async def send_one(_: str, row: int, stamps: list[int]) -> None:
            headers = {"X-Request-Id": f"bench-{row}-0"}
            async with client.post("/v1/chat/completions", json=BODY, headers=headers) as answer:
                async for line in answer.content:
                    take_line(line.decode().rstrip(), stamps)

        return await open_loop(send_one, url, load)


PLAIN = {"httpx": run_httpx, "aiohttp": run_aiohttp}


def child(client: str, url: str, load: Load) -> None:
    """One plain client in this process; prints its figures as JSON."""
    import uvloop

    started_cpu_s, started_s = time.process_time(), time.monotonic()
    start_ns, stamps = uvloop.run(PLAIN[client](url, load))
    figures = {
        "cpu_s": time.process_time() - started_cpu_s,
        "wall_s": time.monotonic() - started_s,
        "num_events": sum(map(len, stamps)),
        "start_monotonic_ns": start_ns,
    }
    sys.stdout.write(json.dumps(figures))


def with_plain(client: str, folder: Path, load: Load) -> Figures:
    with fast_server(folder, load) as (url, log):
        arguments = [str(load.rate_per_s), str(load.num_events), str(load.num_requests)]
        done = subprocess.run(
            [sys.executable, __file__, "--child", client, url, *arguments],
            capture_output=True,
            text=True,
            check=True,
        )
    said = json.loads(done.stdout)
    p50_ms, p99_ms = lateness_ms(log, said["start_monotonic_ns"], load)
    return Figures(said["cpu_s"], said["wall_s"], said["num_events"], p50_ms, p99_ms)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        client, url, rate, events, requests = sys.argv[2:7]
        child(client, url, Load(float(rate), int(events), int(requests)))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--plain-rate", type=float, default=50.0)
    parser.add_argument("--events", type=int, default=32)
    parser.add_argument(
        "--realtime", action="store_true", help="loadgen with --realtime as well (needs root)"
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    load = Load(asked.rate, asked.events, round(asked.rate * asked.seconds))
    plain = Load(asked.plain_rate, asked.events, round(asked.plain_rate * asked.seconds))
    rounds: list[dict[str, Figures]] = []
    for number in range(asked.rounds):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            figures = {"loadgen": with_loadgen(folder, load, realtime=False)}
            if asked.realtime:
                figures["realtime"] = with_loadgen(folder, load, realtime=True)
            figures |= {client: with_plain(client, folder, plain) for client in PLAIN}
            rounds.append(figures)
        print(f"round {number + 1} of {asked.rounds} done", file=sys.stderr)
    show(rounds, {"loadgen": load, "realtime": load, **dict.fromkeys(PLAIN, plain)})


def show(rounds: list[dict[str, Figures]], loads: dict[str, Load]) -> None:
    headings = ("client", "req/s", "CPU s/100k", "core", "own p99", "server p50", "server p99", "CPU ratio")
    rows: list[tuple[str, ...]] = [headings]
    for client in rounds[0]:
        each = [figures[client] for figures in rounds]
        ratio = statistics.median(
            figures[client].cpu_s_per_100k_events / figures["loadgen"].cpu_s_per_100k_events
            for figures in rounds
        )
        own = [figures.own_p99_ms for figures in each if figures.own_p99_ms is not None]
        rows.append(
            (
                client,
                f"{loads[client].rate_per_s:g}",
                f"{statistics.median(f.cpu_s_per_100k_events for f in each):.2f}",
                f"{statistics.median(f.cpu_s / f.wall_s for f in each):.0%}",
                f"{statistics.median(own):.3f}" if own else "-",
                f"{statistics.median(f.lateness_p50_ms for f in each):.3f}",
                f"{statistics.median(f.lateness_p99_ms for f in each):.3f}",
                f"{ratio:.1f}",
            )
        )
    print(f"streams of {loads['loadgen'].num_events} events; medians of {len(rounds)} rounds; lateness in ms")
    for row in rows:
        print("".join(f"{cell:>12}" for cell in row))


if __name__ == "__main__":
    main()
