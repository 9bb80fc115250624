"""The bundled server's own costs: decode against the memory, the scheduler, the HTTP layer, and /health.

    python benchmarks/target_speed.py [--rounds 5] [--write docs/target-speed.md]

A minute on two cores. Shares and ratios are of one run, in which what is compared takes turns.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import torch

from loadgen.compare.ab_target import AbTarget, started
from loadgen_target.clock import WallClock
from loadgen_target.config import EngineConfig, PolicyConfig
from loadgen_target.device import read_bandwidth
from loadgen_target.engine import Engine
from loadgen_target.null_runner import NullRunner
from loadgen_target.request import Sampling, Work
from loadgen_target.rows import Row
from loadgen_target.runner import ModelRunner

ABOUT = """
# What the bundled server itself costs

`python benchmarks/target_speed.py --rounds {rounds} --write docs/target-speed.md` made this page: medians of
{rounds} rounds, on two cores of a virtual machine that had other work. Trust shares and ratios, not milliseconds.
"""
MEANING = """
- Decode: a step must read every weight and the cache of its rows; that many bytes over the step's time, against the
  best of some plain sums over 256 MiB in the same round. What is missing to 100 %: attention over a cache that lies
  scattered, small operators, and on one core arithmetic.
- Scheduler: the whole of `Engine.step` with a model that takes no time: policy, rows, moments, emissions. A step of
  `cpu-25m` takes several hundred times as long.
- HTTP: 16 streams of 64 tokens, one event a token; of the CPU time of the HTTP process alone, since the engine's
  process has a core of its own. At 8 rows a step, a CPU's engine gives less than a hundredth of that.
- `/health`: the model has a process of its own, so the event loop is free during a step.
"""
PROMPT, STEPS = 32, 60
STREAM_TOKENS = 64


def decode_shares(rounds: int) -> list[tuple[float, float, float]]:
    """(ms a step of 8 rows, GB/s that it reads, share of the bandwidth measured beside it) of each round."""
    runner = ModelRunner(EngineConfig(policy=PolicyConfig(max_batch_size=8)))
    runner.warm_up(8)
    weight_bytes, found = int(runner.facts()["weight_bytes"] or 0), []
    for _ in range(rounds):
        bandwidth, _ = read_bandwidth(torch.device("cpu"), weight_bytes)
        assert bandwidth is not None
        rows = rows_of(8)
        for row, token in zip(rows, runner.prefill(rows), strict=True):
            row.take(token, 8, 0)
        times_s = []
        for _ in range(STEPS):
            start_s = time.perf_counter()
            tokens = runner.decode(rows)
            times_s.append(time.perf_counter() - start_s)
            for row, token in zip(rows, tokens, strict=True):
                row.take(token, 8, 0)
        kv_tokens = 8 * (PROMPT + STEPS / 2)
        read_bytes = weight_bytes + kv_tokens * runner.cache.token_bytes
        step_s = statistics.median(times_s)
        found.append((step_s * 1e3, read_bytes / step_s / 1e9, read_bytes / step_s / bandwidth))
    return found


def rows_of(count: int) -> list[Row]:
    rows = []
    for slot in range(count):
        prompt = tuple(32 + (slot + k) % 90 for k in range(PROMPT))
        row = Row(Work(slot, prompt, Sampling(max_tokens=10_000, ignore_eos=True)), prompt, 0)
        row.slot, row.num_read = slot, PROMPT
        rows.append(row)
    return rows


def scheduler_us(num_rows: int, steps: int = 2_000) -> float:
    """us a step of the engine with nothing to compute: policy, rows, moments, emissions."""
    engine = Engine(PolicyConfig(max_batch_size=num_rows), NullRunner(), WallClock())
    for key in range(num_rows):
        engine.submit(Work(key, (1,) * 4, Sampling(max_tokens=10**9, ignore_eos=True)))
    list(engine.step())
    times_s = []
    for _ in range(steps):
        start_s = time.perf_counter()
        engine.wake_ns()
        for _ in engine.step():
            pass
        times_s.append(time.perf_counter() - start_s)
    return statistics.median(times_s) * 1e6


@contextmanager
def serving(flags: str) -> Iterator[str]:
    with started(
        AbTarget("serve", f"{flags} --timeout none --max-queue-size 1000"), ready_within_s=120
    ) as url:
        yield url


def http_ceiling(streams: int, seconds: float) -> tuple[float, float]:
    """Streamed tokens a second of CPU time of the HTTP process, and of HTTP process and engine together."""
    with serving("--policy null") as url:
        engine_pid = int(json.loads(ask(url, "/loadgen/facts"))["engine_pid"])
        pids, counts = [parent_of(engine_pid), engine_pid], [0] * streams
        read_streams(url, 4, time.monotonic() + 1.0, [0] * 4)  # warm
        until_s = time.monotonic() + seconds
        before = [cpu_s(pid) for pid in pids]
        read_streams(url, streams, until_s, counts)
        used = [cpu_s(pid) - was for pid, was in zip(pids, before, strict=True)]
    return sum(counts) / used[0], sum(counts) / sum(used)


def read_streams(url: str, streams: int, until_s: float, counts: list[int]) -> None:
    threads = [
        threading.Thread(target=read_stream, args=(url, until_s, counts, place)) for place in range(streams)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def read_stream(url: str, until_s: float, counts: list[int], place: int) -> None:
    parts = urlsplit(url)
    body = json.dumps(
        {"prompt": "Hello", "max_tokens": STREAM_TOKENS, "ignore_eos": True, "stream": True}
    ).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as connection:
        while time.monotonic() < until_s:
            connection.sendall(head + body)
            said = b""
            while not said.endswith(b"\r\n0\r\n\r\n"):
                said += connection.recv(1 << 16)
            assert said.count(b"data: {") == STREAM_TOKENS
            counts[place] += STREAM_TOKENS


def stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def parent_of(pid: int) -> int:
    return int(stat(pid)[1])


def cpu_s(pid: int) -> float:
    fields = stat(pid)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def health_ms(count: int) -> list[float]:
    """Times of /health while eight streams run in steps of 50 ms."""
    with serving("--preset tiny --step-delay-ms 50") as url:
        until_s = time.monotonic() + 0.1 * count
        threads = [threading.Thread(target=read_stream, args=(url, until_s, [0], 0)) for _ in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        found = []
        for _ in range(count):
            start_s = time.perf_counter()
            ask(url, "/health")
            found.append((time.perf_counter() - start_s) * 1e3)
            time.sleep(0.05)
        for thread in threads:
            thread.join()
    return sorted(found)


def ask(url: str, path: str) -> bytes:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def measured(rounds: int) -> list[list[str]]:
    """Rows of the table: what, found, wanted."""
    decode = decode_shares(rounds)
    step_ms, rate, share = (statistics.median(column) for column in zip(*decode, strict=True))
    shares = [one[2] for one in decode]
    scheduler = {rows: statistics.median(scheduler_us(rows) for _ in range(rounds)) for rows in (1, 8, 64)}
    http_only, both = (
        statistics.median(column)
        for column in zip(*(http_ceiling(16, 3.0) for _ in range(rounds)), strict=True)
    )
    health = health_ms(60)
    return [
        [
            "decode, `cpu-25m`, 8 rows: share of the measured read bandwidth",
            f"{share:.0%} ({min(shares):.0%} to {max(shares):.0%}; {rate:.1f} GB/s, {step_ms:.1f} ms a step)",
            "40 % or more",
        ],
        *(
            [f"scheduler, {rows} rows: time of a step without a model", f"{us:.1f} us", "below 50 us at 64"]
            for rows, us in scheduler.items()
        ),
        [
            "HTTP, `--policy null`: streamed tokens per second of its CPU time",
            f"{http_only:,.0f} ({both:,.0f} with the engine's process)",
            "80,000 or more",
        ],
        [
            "`/health` while 8 streams run in steps of 50 ms",
            f"median {statistics.median(health):.1f} ms, worst of {len(health)} {health[-1]:.1f} ms",
            "below 100 ms",
        ],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path, help="the page, as Markdown")
    flags = parser.parse_args()
    rows = [["what", "found", "wanted"], ["---"] * 3, *measured(flags.rounds)]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    text = f"{ABOUT.strip().format(rounds=flags.rounds)}\n\n{table}\n{MEANING}"
    print(text)
    if flags.write is not None:
        flags.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
