"""A server that stalls for 15 of 30 s: what latency from the plan says of it, and what latency from the send says.

usage: python benchmarks/stall.py [--rate 5]

Requests come evenly for 30 s at a loopback server that answers at once, save from 7.5 s to 22.5 s: what comes
then is answered at the end of that. They are sent in two ways: one at a time (--max-concurrency 1, as a closed
loop does, so that the stall keeps the others from being sent), and in open loop, where all are sent on time.
Printed: mean and p99 of latency and of service latency, and whether the run is valid.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from client_speed import Load, even_trace

from loadgen.testing import FakeRequest, FakeTarget, Step, chat_stream
from loadgen.trace.parquet import write_trace

SECONDS, STALL_S, STALLS_AT_S = 30.0, 15.0, 7.5


class Stalling:
    """Two tokens at once, or at the end of the stall, which begins so long after the first request."""

    def __init__(self) -> None:
        self._first_s: float | None = None

    def __call__(self, request: FakeRequest) -> Sequence[Step]:
        if self._first_s is None:
            self._first_s = request.received_s
        since_stall_s = request.received_s - self._first_s - STALLS_AT_S
        return chat_stream(
            2, first_s=STALL_S - since_stall_s if 0 <= since_stall_s < STALL_S else 0.0, gap_s=0.0
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=5.0)
    rate_per_s = parser.parse_args().rate
    load = Load(rate_per_s, 2, round(rate_per_s * SECONDS))
    print("".join(f"{cell:>18}" for cell in ("", "latency mean", "p99", "service mean", "p99", "run")))
    for name, flags in {"one at a time": ["--max-concurrency", "1"], "open loop": []}.items():
        with tempfile.TemporaryDirectory() as folder, FakeTarget(Stalling()) as fake:
            figures = sent(Path(folder), fake.url, load, flags)
        print("".join(f"{cell:>18}" for cell in (name, *figures)), flush=True)


def sent(folder: Path, url: str, load: Load, flags: Sequence[str]) -> list[str]:
    trace, out = folder / "trace.parquet", folder / "runs"
    write_trace(even_trace(load), trace)
    command = [sys.executable, "-m", "loadgen", "replay", str(trace), "--url", url, "--out-dir", str(out)]
    ran = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    if ran.returncode not in (0, 4):
        sys.exit(ran.stderr)
    (run,) = out.iterdir()
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    overall = report["windows"][0]["metrics"]
    cells = [
        f"{overall[metric][statistic]:.2f} s"
        for metric in ("latency", "service_latency")
        for statistic in ("mean", "p99")
    ]
    return [*cells, "invalid" if ran.returncode else "valid"]


if __name__ == "__main__":
    main()
