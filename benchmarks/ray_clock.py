"""How well a node's clock is known: its error, its bound and its residual, where the truth is known.

usage: python benchmarks/ray_clock.py [--shift-ms 250] [--seconds 20] [--runs 3]    (as root, on Linux)

In namespaces, the second of two nodes has a network of its own, joined to ours by two virtual interfaces, and a
monotonic clock that is ahead by --shift-ms. `loadgen replay --ray` sends from both, and a row each for Markdown is
read off its run.json. causality: by how much, at most, a stamp contradicts what the target saw by our clock (sent
after it was received, or answered before).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from loadgen.replay.run_folder import RunFolder
from loadgen.testing import FakeTarget, chat_stream
from loadgen.trace.parquet import write_trace

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support import command
from support.network import can_make_networks
from support.ray_nodes import TwoNodes, can_shift_clocks, two_nodes
from support.traces import trace_of

HEAD = "| node | planted, ms | error, ms | bound, ms | residual, ms | checks | causality, ms |"


def measured(nodes: TwoNodes, trace: Path, folder: Path, shift_ns: int) -> list[str]:
    """A row for each node of one run."""
    with FakeTarget(lambda _: chat_stream(4, first_s=0.005), host=nodes.here) as fake:
        ran = command.run(
            *("replay", trace, "--url", fake.url, "--ray", nodes.address, "--workers", 2),
            *("--out-dir", folder, "--max-lateness", "1s"),
        )
    if ran.returncode:
        sys.exit(ran.stderr)
    (path,) = folder.iterdir()
    run = RunFolder.open(path)
    facts = run.read_facts()
    received_ns = {
        one.row: round(one.received_s * 1e9) - facts["start_monotonic_ns"] for one in fake.requests
    }
    rows = []
    for node in facts["generator"]["nodes"]:
        clock, planted_ns = node["clock"], 0 if node["address"] == nodes.here else shift_ns
        against_ns = [
            max(
                row["sent_ns"] - received_ns[row["trace_row"]],
                received_ns[row["trace_row"]] - row["headers_ns"],
            )
            for row in run.read_requests().to_pylist()
            if row["worker"] in node["workers"]
        ]
        figures = (clock["offset_ns"] - planted_ns, clock["uncertainty_ns"], clock["residual_ns"])
        rows.append(
            f"| {node['address']} | {planted_ns / 1e6:g} | "
            + " | ".join(f"{figure / 1e6:.3f}" for figure in figures)
            + f" | {clock['num_checks']} | {max(0, *against_ns) / 1e6:.3f} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--shift-ms", type=float, default=250.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    if not (can_make_networks() and can_shift_clocks()):
        sys.exit("this user may make no network and time namespaces: run it as root, on Linux")
    shift_ns = round(given.shift_ms * 1e6)
    print(HEAD)
    print("|---" * (HEAD.count("|") - 1) + "|", flush=True)
    with tempfile.TemporaryDirectory() as text, two_nodes(shift_ns) as nodes:
        trace = Path(text) / "even.parquet"
        write_trace(trace_of((np.arange(round(given.seconds * 50)) / 50).tolist()), trace)
        for number in range(given.runs):
            for row in measured(nodes, trace, Path(text) / f"run-{number}", shift_ns):
                print(row, flush=True)


if __name__ == "__main__":
    main()
