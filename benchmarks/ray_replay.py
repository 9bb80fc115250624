"""The same bursty trace by two workers on this machine and by two actors of a Ray cluster begun here.

usage: python benchmarks/ray_replay.py [--rate 500] [--seconds 60] [--realtime] [--records-to FOLDER]

A loopback server (fast_server.py: 4 events a request, 2 ms apart) answers. Printed is a row each for Markdown, and
whether both sent the same schedule and gave reports of one form. --realtime (as root) runs both a second time with
it; --records-to has the actors keep their records in that folder.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from client_speed import Load, fast_server

from loadgen.trace.parquet import write_trace

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.traces import trace_of

HEAD = "| run | requests | lateness p50, ms | p99 | worst | of a core, each worker | MB, each worker | schedule |"


def replayed(
    trace: Path, folder: Path, load: Load, more: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """run.json and report.json of one run."""
    out = folder / "-".join(["run", *more]).replace("/", "_")
    with fast_server(folder, load) as (url, _):
        ran = subprocess.run(
            [
                *(sys.executable, "-m", "loadgen", "replay", str(trace), "--url", url, "--out-dir", str(out)),
                *("--arrivals", "bursty", "--seed", "3", "--workers", "2", "--json", *more),
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    if ran.returncode not in (0, 4):  # 4: late, which the row shows
        sys.exit(ran.stderr)
    (run,) = out.iterdir()
    return json.loads((run / "run.json").read_text()), json.loads((run / "report.json").read_text())


def form(value: Any) -> Any:
    """The keys of a document, without what is told of nodes and processes."""
    if not isinstance(value, dict):
        return None
    return {key: form(inner) for key, inner in value.items() if key not in ("generator", "outcomes")}


def row(name: str, facts: dict[str, Any], report: dict[str, Any]) -> str:
    late = report["windows"][0]["metrics"]["dispatch_lateness"]
    workers = facts["generator"]["workers"]
    cpu = ", ".join(f"{worker['cpu_s'] / worker['wall_s']:.0%}" for worker in workers)
    memory = ", ".join(f"{worker['max_rss_bytes'] / 1e6:.0f}" for worker in workers)
    times = " | ".join(f"{late[key] * 1e3:.2f}" for key in ("p50", "p99", "max"))
    sent = report["requests"]["sent"]
    return f"| {name} | {sent:,} | {times} | {cpu} | {memory} | {facts['schedule_hash'][:12]} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--records-to")
    given = parser.parse_args()
    load = Load(given.rate, 4, round(given.rate * given.seconds))
    there = ["--records-to", given.records_to] if given.records_to else []
    print(HEAD)
    print("|---" * (HEAD.count("|") - 1) + "|", flush=True)
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        trace = folder / "even.parquet"
        write_trace(trace_of((np.arange(round(given.rate * given.seconds)) / given.rate).tolist()), trace)
        for priority in ([], ["--realtime"]) if given.realtime else ([],):
            found = []
            for name, more in (("two processes", []), ("two actors", ["--ray", "local", *there])):
                found.append(replayed(trace, folder, load, [*more, *priority]))
                print(row(" ".join([name, *priority]), *found[-1]), flush=True)
            (facts, report), (ray_facts, ray_report) = found
            print(
                f"\nsame schedule: {facts['schedule_hash'] == ray_facts['schedule_hash']}, "
                f"reports of one form: {form(report) == form(ray_report)}\n",
                flush=True,
            )


if __name__ == "__main__":
    main()
