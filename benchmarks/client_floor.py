"""What loadgen's sender costs beside a client in C that does the least: the same streams, one core, in turns.

usage: python benchmarks/client_floor.py SOURCES [--rate 2000] [--events 32,8] [--rounds 5] [--realtime]

SOURCES is a folder with floorclient.c (sends on time, counts `data: ` and keeps no records) and mockserver.c (one
thread, streams events 2 ms apart); a C compiler is needed. Server and client have a core each. In each round both
clients take turns. Printed, as medians: user and system CPU seconds of the client's process per 100,000 token
events, the ratio of the two, loadgen's lateness p99 and the share of its events that came in one read with others
(a client that falls behind has less to do for each). With two numbers of events, at the same events a second, the
cost is split into that of a request and that of an event.

Nearly all that the C client does is system calls, so what loadgen needs beyond it is Python and the event loop.
loadgen makes its requests ahead; what that takes is measured apart and added.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from client_speed import Load

from loadgen.plan.prompts import PromptMaker
from loadgen.plan.schedule import SCHEMA
from loadgen.replay.coordinator import run_workers
from loadgen.replay.dialects import dialect_named
from loadgen.replay.payloads import Asking, Payloads
from loadgen.replay.run_folder import read_journal
from loadgen.replay.share import shares_of
from loadgen.replay.target import Target, Timeouts
from loadgen.replay.worker import WorkerSettings
from loadgen.replay.worker_process import WorkerProcesses
from loadgen.replay.workers import WorkerTask

PORT = 9310
GAP_US = 2000
PROGRAMS = ("mockserver", "floorclient")


@dataclass(frozen=True, slots=True)
class Round:
    """CPU seconds of each client; of loadgen also lateness p99 (ms) and the share of coalesced events."""

    floor_cpu_s: float
    own_cpu_s: float
    own_p99_ms: float
    coalesced: float


def built(sources: Path, folder: Path) -> None:
    """Compile both programs into `folder`, or say what is missing and leave."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        sys.exit("client_floor: no C compiler (cc or gcc) is installed")
    for name in PROGRAMS:
        source = sources / f"{name}.c"
        if not source.is_file():
            sys.exit(f"client_floor: {source} is missing; give the folder that holds {name}.c")
        subprocess.run([compiler, "-O2", "-o", str(folder / name), str(source), "-lm"], check=True)


@contextmanager
def mock_server(folder: Path, core: int, *, realtime: bool) -> Iterator[None]:
    flags = ["-p", str(PORT), "-f", str(GAP_US), "-d", str(GAP_US), "-l", str(folder / "mock.bin")]
    process = subprocess.Popen(
        [str(folder / "mockserver"), *flags],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: placed(core, realtime=realtime),  # noqa: PLW1509  # there are no threads here
    )
    try:
        assert process.stderr is not None
        if not process.stderr.readline().startswith("ready"):
            sys.exit(f"client_floor: mockserver did not start; is port {PORT} in use?")
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(10)


def placed(core: int, *, realtime: bool) -> None:
    os.sched_setaffinity(0, {core})
    if realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))


def floor_cpu_s(folder: Path, load: Load, core: int, *, realtime: bool) -> float:
    seconds = load.num_requests / load.rate_per_s
    flags = ["-p", str(PORT), "-r", str(load.rate_per_s), "-t", str(seconds), "-n", str(load.num_events)]
    done = subprocess.run(
        [str(folder / "floorclient"), *flags],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=lambda: placed(core, realtime=realtime),
    )
    said = json.loads(done.stdout)
    if said["done"] != load.num_requests:
        sys.exit(f"client_floor: the C client had {said['done']} of {load.num_requests} answers")
    return float(said["cpu_s"])


def share_of(load: Load) -> pa.Table:
    """Evenly spaced requests as the table of a schedule."""
    count = load.num_requests
    given = {
        "planned_ns": (np.arange(count) * (1e9 / load.rate_per_s)).astype(np.int64),
        "trace_row": np.arange(count, dtype=np.int32),
        "copy": np.zeros(count, np.int16),
        "window": pa.array(["baseline"] * count).dictionary_encode(),
        "input_tokens": np.full(count, 100, np.int32),
        "output_tokens": np.full(count, load.num_events, np.int32),
    }
    return pa.table(
        {name: given.get(name, pa.nulls(count, SCHEMA.field(name).type)) for name in SCHEMA.names}
    ).cast(SCHEMA)


TARGET = Target(f"http://127.0.0.1:{PORT}", "http", "127.0.0.1", PORT, "127.0.0.1")
ASKING = Asking("chat", "mock", "floor", stream=True)


def own_run(
    folder: Path, load: Load, core: int, *, workers: int, realtime: bool
) -> tuple[float, float, float]:
    """The workers of a real run, their records journalled: CPU s, lateness p99 in ms, share of coalesced events."""
    tasks = [
        WorkerTask(
            worker=worker,
            share=share,
            settings=WorkerSettings(TARGET, Timeouts(total_s=60.0), drain_s=5.0, realtime=realtime),
            asking=ASKING,
            prompts=PromptMaker(),
            journal_path=folder / f"worker-{worker}-{time.monotonic_ns()}.arrows",
        )
        for worker, share in enumerate(shares_of(share_of(load), workers))
    ]
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})  # the worker inherits it
    try:
        ending = asyncio.run(
            run_workers(WorkerProcesses(tasks), range(workers), lambda *_: None, lambda _: None)
        )
    finally:
        os.sched_setaffinity(0, everywhere)
    records = read_journal([task.journal_path for task in tasks])
    num_events = pc.sum(records.column("num_chunks")).as_py()
    if num_events != load.num_requests * load.num_events:
        sys.exit(f"client_floor: loadgen had {num_events} events of {load.num_requests * load.num_events}")
    late_ms = pc.subtract(records.column("sent_ns"), records.column("planned_ns")).to_numpy() / 1e6
    coalesced = pc.sum(records.column("num_coalesced")).as_py() / num_events
    cpu_s = sum(float(worker["cpu_s"]) for worker in ending.workers)
    return cpu_s, float(np.percentile(late_ms, 99)), coalesced


def making_cpu_s(load: Load) -> float:
    """What it takes to make the requests, which a worker does ahead."""
    share = share_of(load)
    started_s = time.process_time()
    Payloads(share, TARGET, dialect_named("chat"), PromptMaker(), ASKING).build_ahead(lambda: True)
    return time.process_time() - started_s


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sources", type=Path, help="folder with floorclient.c and mockserver.c")
    parser.add_argument("--rate", type=float, default=2000.0, help="requests a second, of the first --events")
    parser.add_argument(
        "--events", type=lambda text: [int(part) for part in text.split(",")], default="32", help="a request"
    )
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=1, help="of loadgen, on the one core")
    parser.add_argument("--realtime", action="store_true", help="all of them before other work (needs root)")
    parser.add_argument(
        "--cores",
        type=lambda text: [int(part) for part in text.split(",")],
        default="0,1",
        help="of the client and of the server",
    )
    asked = parser.parse_args()
    per_request_us: dict[int, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        built(asked.sources, folder)
        for num_events in asked.events:
            rate = asked.rate * asked.events[0] / num_events
            load = Load(rate, num_events, round(rate * asked.seconds))
            rounds = [one_round(folder, load, asked) for _ in range(asked.rounds)]
            per_request_us[num_events] = show(load, rounds)
    if len(per_request_us) == 2:
        show_split(per_request_us)


def one_round(folder: Path, load: Load, asked: argparse.Namespace) -> Round:
    client_core, server_core = asked.cores
    with mock_server(folder, server_core, realtime=asked.realtime):
        floor_s = floor_cpu_s(folder, load, client_core, realtime=asked.realtime)
        cpu_s, p99_ms, coalesced = own_run(
            folder, load, client_core, workers=asked.workers, realtime=asked.realtime
        )
    return Round(floor_s, cpu_s + making_cpu_s(load), p99_ms, coalesced)


def show(load: Load, rounds: list[Round]) -> tuple[float, float]:
    """Print one line; returns CPU us a request of the C client and of loadgen."""
    num_events = load.num_requests * load.num_events
    floor_s = statistics.median(one.floor_cpu_s for one in rounds)
    own_s = statistics.median(one.own_cpu_s for one in rounds)
    ratios = [one.own_cpu_s / one.floor_cpu_s for one in rounds]
    print(
        f"{load.rate_per_s:g} req/s of {load.num_events} events, CPU s per 100,000 events: "
        f"C {floor_s / num_events * 1e5:.3f}, loadgen {own_s / num_events * 1e5:.3f}; "
        f"ratio {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); "
        f"lateness p99 {statistics.median(one.own_p99_ms for one in rounds):.3f} ms, "
        f"coalesced {statistics.median(one.coalesced for one in rounds):.1%}",
        flush=True,
    )
    return floor_s / load.num_requests * 1e6, own_s / load.num_requests * 1e6


def show_split(per_request_us: dict[int, tuple[float, float]]) -> None:
    """Two lengths of stream at one rate of events give the cost of a request and of an event."""
    (many, of_many), (few, of_few) = sorted(per_request_us.items(), reverse=True)
    for client, longer, shorter in zip(("C", "loadgen"), of_many, of_few, strict=True):
        event_us = (longer - shorter) / (many - few)
        print(f"{client}: {event_us:.2f} us an event and {longer - many * event_us:.0f} us a request")


if __name__ == "__main__":
    main()
