"""Planted causes against the real command: which cause `loadgen replay` names first, as a confusion matrix.

Each cause is planted in a live server on this machine: the bundled one by its flags, a server by script where a CPU
cannot show it (a full KV cache), or a relay in front that keeps tokens back. `--write FILE` makes the page.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from loadgen.testing import FakeRequest, FakeTarget, Step, Wait, chat_stream
from loadgen.trace.parquet import write_trace
from loadgen.trace.schema import SCHEMA
from loadgen.trace.trace import Trace, TraceMetadata

LOADGEN = [sys.executable, "-m", "loadgen"]
RUN_S = 5.0


@dataclass(frozen=True)
class Planted:
    """How a cause is planted. flags: of the bundled server; None: the server by script. options: of replay.

    lengths: answer lengths and how often each is drawn. buffered: a relay stands in front.
    """

    cause: str
    how: str
    flags: str | None
    rate: float
    lengths: dict[int, float]
    options: tuple[str, ...] = ()
    buffered: bool = False
    run_s: float = RUN_S


CAUSES = (
    Planted("healthy", "continuous batching at a fifth of its capacity, limit kept",
            "--preset tiny --policy continuous --step-delay-ms 5", 6, {4: 0.5, 8: 0.5},
            ("--slo", "latency p99 < 1s")),
    Planted("compute-bound", "one request at a time, 40 steps of a real model, limit broken",
            "--preset cpu-25m --policy continuous", 1.2, {40: 1.0}, ("--slo", "latency p99 < 150ms"), run_s=18.0),
    Planted("batching too conservative", "dynamic, wait of 150 ms, few requests",
            "--preset tiny --policy dynamic --max-wait-ms 150", 10, {4: 1.0}),
    Planted("saturated", "continuous batches of 4, three times the rate they carry",
            "--preset cpu-25m --policy continuous --max-batch-size 4 --max-queue-size 5000", 100, {8: 1.0}),
    Planted("head of line", "dynamic batches, one answer in six of 60 tokens among answers of 3",
            "--preset cpu-25m --policy dynamic --max-wait-ms 20", 5, {3: 5 / 6, 60: 1 / 6}, run_s=10.0),
    Planted("preprocessing-bound", "one preprocessing worker, 150 ms each",
            "--preset tiny --policy continuous --preprocess-ms 150 --preprocess-workers 1", 9, {4: 1.0}),
    Planted("memory-bound", "server by script: its cache holds two requests, /metrics in vLLM's names",
            None, 12, {8: 1.0}),
    Planted("launch-bound", "a sleep of 30 ms in each step beside 1 ms of computing",
            "--preset tiny --policy continuous --max-batch-size 32 --step-delay-ms 30", 14, {10: 1.0}),
    Planted("rejecting", "a queue of 1 and a rate above what a batch of 1 carries",
            "--preset cpu-25m --policy continuous --max-batch-size 1 --max-queue-size 1", 14, {10: 1.0}),
    Planted("generator-bound", "one request at a time (--max-concurrency 1) at a rate for three",
            "--preset cpu-25m --policy continuous", 14, {20: 1.0}, ("--max-concurrency", "1")),
    Planted("network or proxy buffering", "a relay that keeps 16 KB or a whole answer back",
            "--preset tiny --policy continuous --step-delay-ms 10", 6, {12: 1.0}, buffered=True),
    Planted("not enough evidence", "ten requests",
            "--preset tiny --policy continuous --step-delay-ms 5", 2, {4: 1.0}),
)  # fmt: skip
# Trusting our own sends: on a machine that is shared they leave late for reasons that are not planted.
LATENESS = "500ms"
# Runs that others on the machine kept from being valid are repeated, so often in all.
TRIES = 3


def write_sample(planted: Planted, seed: int, path: Path) -> None:
    """Poisson arrivals, short prompts, answers of the planted lengths."""
    rng = np.random.default_rng(seed)
    count = round(planted.rate * planted.run_s)
    gaps = rng.exponential(size=count)
    given: dict[str, Any] = {
        "arrival_ns": (np.cumsum(gaps) / gaps.sum() * planted.run_s * 1e9).astype(np.int64),
        "input_tokens": rng.integers(4, 16, count),
        "output_tokens": rng.choice(list(planted.lengths), count, p=list(planted.lengths.values())),
    }
    arrays = [
        pa.array(given[field.name], field.type) if field.name in given else pa.nulls(count, field.type)
        for field in SCHEMA
    ]
    metadata = TraceMetadata(origin_unix_ns=None, stamp_marks="arrival", arrival_from="made for a benchmark")
    write_trace(Trace(pa.Table.from_arrays(arrays, schema=SCHEMA), metadata), path)


@contextmanager
def serving(flags: str, folder: Path) -> Iterator[str]:
    """The bundled server; yields its URL."""
    ready = folder / f"ready-{time.monotonic_ns()}.json"
    command = [
        *LOADGEN,
        "serve",
        *flags.split(),
        "--port",
        "0",
        "--ready-file",
        str(ready),
        "--timeout",
        "none",
    ]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(1200):
            if ready.is_file():
                break
            time.sleep(0.1)
        yield json.loads(ready.read_text(encoding="utf-8"))["url"]
    finally:
        process.terminate()
        process.wait()


class FullCache:
    """A server whose cache holds two requests: others wait, and its /metrics say so in vLLM's names."""

    SERVICE_S = 0.25

    def __init__(self) -> None:
        self._free_s = [0.0, 0.0]
        # (received, started, ended) of each request, by the clock of the target.
        self._requests: list[tuple[float, float, float]] = []

    def script(self, request: FakeRequest) -> Sequence[Step]:
        place = min((0, 1), key=lambda one: self._free_s[one])
        start_s = max(request.received_s, self._free_s[place])
        self._free_s[place] = start_s + self.SERVICE_S
        self._requests.append((request.received_s, start_s, start_s + self.SERVICE_S))
        tokens = int(request.body.get("max_completion_tokens") or request.body.get("max_tokens") or 8)
        return [
            Wait(start_s - request.received_s),
            *chat_stream(
                tokens, first_s=self.SERVICE_S / 4, gap_s=0.75 * self.SERVICE_S / max(1, tokens - 1)
            ),
        ]

    def metrics(self) -> str:
        now_s = time.monotonic()
        running = sum(start <= now_s < end for _, start, end in self._requests)
        ended = [one for one in self._requests if one[2] <= now_s]
        waiting = sum(now_s < start for _, start, _ in self._requests)
        lines = {
            "vllm:num_requests_running": running,
            "vllm:num_requests_waiting": waiting,
            "vllm:kv_cache_usage_perc": 0.49 * running,
            "vllm:request_queue_time_seconds_sum": sum(start - received for received, start, _ in ended),
            "vllm:e2e_request_latency_seconds_sum": sum(end - received for received, _, end in ended),
        }
        return "".join(f"{name} {value}\n" for name, value in lines.items())


@contextmanager
def buffering(url: str) -> Iterator[str]:
    """A relay that passes an answer on as a buffering proxy does: 16 KB at a time, or all of it at its end."""
    port = urlsplit(url).port

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_target, to_target = await asyncio.open_connection("127.0.0.1", port)

        async def there() -> None:
            while data := await reader.read(65536):
                to_target.write(data)
            to_target.close()

        asking = asyncio.create_task(there())
        kept, is_stream = b"", False
        while data := await from_target.read(65536):
            kept += data
            if kept.startswith(b"HTTP/"):
                if b"\r\n\r\n" not in kept:
                    continue
                is_stream = b"transfer-encoding: chunked" in kept.split(b"\r\n\r\n", 1)[0].lower()
            if not is_stream or len(kept) >= 1 << 14 or kept.endswith(b"0\r\n\r\n"):
                writer.write(kept)
                kept = b""
        writer.close()
        asking.cancel()

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(relay, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def diagnosed(planted: Planted, url: str, seed: int, folder: Path) -> tuple[list[str], str]:
    """(causes in order, evidence of the first) that one replay finds. Windows that did not hold are no causes."""
    trace = folder / f"{planted.cause.replace(' ', '-')}-{seed}.parquet"
    write_sample(planted, seed, trace)
    command = [*LOADGEN, "replay", str(trace), "--url", url, "--json", "--ignore-eos", "--chars-per-token", "1",
               "--seed", str(seed), "--max-lateness", LATENESS, "--out-dir", str(folder / "runs"),
               *planted.options]  # fmt: skip
    if planted.cause == "generator-bound":
        command[command.index("--max-lateness") + 1] = "20ms"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise RuntimeError(f"{planted.cause}: exit code {done.returncode}\n{done.stderr}")
    verdicts = json.loads(done.stdout)["diagnosis"]
    names = [one["name"] for one in verdicts if not one["name"].endswith(("did not hold", "not recovered"))]
    return names, str(verdicts[0]["evidence"])


def runs_of(planted: Planted, seeds: int, folder: Path) -> list[tuple[list[str], str]]:
    with ExitStack() as stack:
        if planted.flags is None:
            cache = FullCache()
            url = stack.enter_context(FakeTarget(cache.script, metrics=cache.metrics)).url
        else:
            url = stack.enter_context(serving(planted.flags, folder))
        if planted.buffered:
            url = stack.enter_context(buffering(url))
        return [believed(planted, url, seed, folder) for seed in range(1, seeds + 1)]


def believed(planted: Planted, url: str, seed: int, folder: Path) -> tuple[list[str], str]:
    """As diagnosed; a run that fails or says itself that it is not to be believed is repeated, as a user would."""
    for _ in range(TRIES - 1):
        try:
            names, evidence = diagnosed(planted, url, seed, folder)
        except RuntimeError as exc:
            print(f"{planted.cause}, seed {seed}: repeated ({exc})", flush=True)
            continue
        if planted.cause == "generator-bound" or names[0] != "generator-bound":
            return names, evidence
        print(f"{planted.cause}, seed {seed}: repeated ({evidence})", flush=True)
    return diagnosed(planted, url, seed, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--seeds", type=int, default=3, help="runs of each cause")
    parser.add_argument("--lanes", type=int, default=2, help="causes at a time")
    parser.add_argument("--only", default="", help="causes whose name holds this")
    parser.add_argument("--write", type=Path, help="write the page here, as Markdown")
    given = parser.parse_args()
    started_s = time.monotonic()
    found: dict[str, list[tuple[list[str], str]]] = {}
    chosen = [planted for planted in CAUSES if given.only in planted.cause]
    with tempfile.TemporaryDirectory(prefix="loadgen-") as name, ThreadPoolExecutor(given.lanes) as pool:
        runs = pool.map(lambda planted: runs_of(planted, given.seeds, Path(name)), chosen)
        for planted, those in zip(chosen, runs, strict=True):
            found[planted.cause] = those
            for causes, evidence in those:
                print(f"{planted.cause:28} -> {', '.join(causes)}: {evidence}", flush=True)
    minutes = (time.monotonic() - started_s) / 60
    right = sum(causes[0] == cause for cause, runs in found.items() for causes, _ in runs)
    print(f"{right} of {sum(map(len, found.values()))} named first; {minutes:.1f} min")
    if given.write:
        given.write.write_text(page(found, given.seeds, given.lanes, minutes), encoding="utf-8")


def page(found: dict[str, list[tuple[list[str], str]]], seeds: int, lanes: int, minutes: float) -> str:
    """The matrix, and below it how each cause was planted and what was said of it."""
    named = list(found)
    named += sorted({causes[0] for runs in found.values() for causes, _ in runs} - set(named))
    rows = [
        f"| {cause} | " + " | ".join(_count([causes[0] for causes, _ in runs], name) for name in named) + " |"
        for cause, runs in found.items()
    ]
    how = {planted.cause: planted.how for planted in CAUSES}
    told = [f"| {cause} | {how[cause]} | {runs[0][1]} | {_further(runs)} |" for cause, runs in found.items()]
    heads = "| planted | " + " | ".join(named) + " |\n|---|" + "---|" * len(named)
    return PAGE.format(
        seeds=seeds,
        minutes=minutes,
        lanes=lanes,
        run_s=RUN_S,
        matrix="\n".join([heads, *rows]),
        told="\n".join(told),
    )


def _count(names: Sequence[str], name: str) -> str:
    return str(names.count(name)) if name in names else "."


def _further(runs: Sequence[tuple[list[str], str]]) -> str:
    further = [name for causes, _ in runs for name in causes[1:]]
    return ", ".join(f"{name} ({further.count(name)})" for name in dict.fromkeys(further)) or "-"


PAGE = """\
# Planted causes, and what the report names

`python benchmarks/diagnosis_matrix.py --write docs/diagnosis-matrix.md` made this page in {minutes:.0f} minutes.
Each cause was planted in a live server and replayed with {seeds} seeds (other arrivals, lengths and prompts each),
mostly for {run_s:.0f} s, {lanes} causes at a time. A row is a planted cause, a column the cause that the report
named first, a cell the number of runs. A run that was invalid for what else the machine did was repeated.

{matrix}

| planted | how | evidence in the first run | named besides, in any run |
|---|---|---|---|
{told}

The server by script and the sleeps stand in for what a CPU cannot show: a cache that is full before the batch is,
and a device that waits for launches. The same causes are planted in run folders without a server in
`tests/report/test_diagnosis.py`, which takes seconds. [report.md](report.md#causes) has the rules.
"""


if __name__ == "__main__":
    main()
