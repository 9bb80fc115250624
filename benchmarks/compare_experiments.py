"""`loadgen ab` against the bundled server: versions that are the same, worse on purpose, and better on purpose.

    python benchmarks/compare_experiments.py [--same 20] [--changed 10] [--write docs/compare-experiments.md]

Each experiment is the real command against two live servers of the tiny model, whose steps take a real sleep, so
that a planted change is as large as it says whatever else the machine does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from loadgen.trace.parquet import write_trace
from loadgen.trace.schema import SCHEMA
from loadgen.trace.trace import Trace, TraceMetadata

BASE = "--policy continuous --max-batch-size 8 --step-delay-ms 50"
WINDOW = "--policy fixed-window --window-ms {} --max-batch-size 8 --step-delay-ms 5"
RUN_S = 6.0
LOADGEN = [sys.executable, "-m", "loadgen"]


@dataclass(frozen=True)
class Kind:
    """What is planted. expected: the verdict that is right; of `same`, better and worse are both wrong.

    rate: requests a second; well below what the server can do, where no queue comes and goes by chance.
    """

    name: str
    a: str
    b: str
    expected: str
    rate: int = 6


SAME = Kind("the same flags", BASE, BASE, "same")
CHANGES = (
    Kind("steps 10 % slower", BASE, BASE.replace("-ms 50", "-ms 55"), "worse"),
    Kind("batch of 2 instead of 8", BASE, BASE.replace("size 8", "size 2"), "worse", 9),
    Kind("window of 100 ms instead of 50", WINDOW.format(50), WINDOW.format(100), "worse"),
    Kind("steps 9 % faster", BASE.replace("-ms 50", "-ms 55"), BASE, "better"),
)


@contextmanager
def serving(flags: str, folder: Path) -> Iterator[str]:
    """A server that stays up for all experiments of a kind; yields its URL."""
    ready = folder / f"ready-{time.monotonic_ns()}.json"
    command = [
        *LOADGEN,
        "serve",
        "--preset",
        "tiny",
        "--port",
        "0",
        "--ready-file",
        str(ready),
        "--timeout",
        "none",
    ]
    process = subprocess.Popen(
        [*command, *flags.split()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(1200):
            if ready.is_file():
                break
            time.sleep(0.1)
        yield json.loads(ready.read_text(encoding="utf-8"))["url"]
    finally:
        process.terminate()
        process.wait()


def write_sample(path: Path, count: int) -> None:
    """Bursty arrivals, short prompts, answers of 2 to 11 tokens."""
    rng = np.random.default_rng(4)
    gaps = rng.gamma(0.5, size=count)
    arrivals_ns = (np.cumsum(gaps) / gaps.sum() * RUN_S * 1e9).astype(np.int64)
    given: dict[str, Any] = {
        "arrival_ns": arrivals_ns,
        "input_tokens": rng.integers(4, 24, count),
        "output_tokens": rng.integers(2, 12, count),
    }
    arrays = [
        pa.array(given[field.name], field.type) if field.name in given else pa.nulls(count, field.type)
        for field in SCHEMA
    ]
    metadata = TraceMetadata(origin_unix_ns=None, stamp_marks="arrival", arrival_from="made for a benchmark")
    write_trace(Trace(pa.Table.from_arrays(arrays, schema=SCHEMA), metadata), path)


def experiment(
    kind: Kind, urls: tuple[str, str], folder: Path, number: int, max_pairs: int
) -> dict[str, Any]:
    """The comparison of one `loadgen ab`, as its JSON."""
    command = [
        *LOADGEN, "ab", str(folder / "trace.parquet"), "--a", urls[0], "--b", urls[1], "--json", "--ignore-eos",
        "--chars-per-token", "1", "--seed", str(number), "--max-pairs", str(max_pairs), "--max-lateness", "1s",
        "--out-dir", str(folder / "runs"),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{kind.name}: exit code {done.returncode}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def table(kinds: list[tuple[Kind, int]], max_pairs: int, folder: Path) -> list[str]:
    rows = []
    for kind, count in kinds:
        write_sample(folder / "trace.parquet", round(kind.rate * RUN_S))
        with ExitStack() as stack:
            urls = (
                stack.enter_context(serving(kind.a, folder)),
                stack.enter_context(serving(kind.b, folder)),
            )
            found = [experiment(kind, urls, folder, number, max_pairs) for number in range(count)]
        verdicts = [one["verdict"] for one in found]
        named: dict[str, int] = {}
        for one in found:
            for cell in one["cells"]:
                if cell["decides"] and cell["verdict"] == kind.expected:
                    name = f"{cell['metric']} {cell['statistic'] or ''}".strip()
                    named[name] = named.get(name, 0) + 1
        counts = " / ".join(str(verdicts.count(v)) for v in ("worse", "better", "same", "inconclusive"))
        pairs = sorted(len(one["base"]) for one in found)
        most = sorted(named.items(), key=lambda item: -item[1])[:4]
        rows.append(
            f"| {kind.name} | {count} | {counts} | {pairs[len(pairs) // 2]} | "
            f"{', '.join(f'{name} ({times})' for name, times in most) or '-'} |"
        )
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--same", type=int, default=20, help="experiments with nothing changed")
    parser.add_argument("--changed", type=int, default=10, help="experiments of each planted change")
    parser.add_argument("--max-pairs", type=int, default=16)
    parser.add_argument("--only", default="", help="kinds whose name holds this")
    parser.add_argument("--write", type=Path, help="write the table here, as Markdown")
    given = parser.parse_args()
    started_s = time.monotonic()
    kinds = [(SAME, given.same), *((kind, given.changed) for kind in CHANGES)]
    kinds = [(kind, count) for kind, count in kinds if count and given.only in kind.name]
    with tempfile.TemporaryDirectory(prefix="loadgen-") as name:
        rows = table(kinds, given.max_pairs, Path(name))
    page = PAGE.format(
        same=given.same,
        changed=given.changed,
        max_pairs=given.max_pairs,
        minutes=(time.monotonic() - started_s) / 60,
        run_s=RUN_S,
        rows="\n".join(rows),
    )
    if given.write:
        given.write.write_text(page, encoding="utf-8")


PAGE = """\
# `loadgen ab` against real servers

`python benchmarks/compare_experiments.py --same {same} --changed {changed} --max-pairs {max_pairs} --write
docs/compare-experiments.md` made this page in {minutes:.0f} minutes. Each experiment is the real command: at most
{max_pairs} pairs of runs of {run_s:.0f} s (6 requests a second; 9 where the batch is smaller), two live servers of
the tiny model on the same machine as the generator, the default levels of `loadgen ab`.

| what differs | experiments | worse / better / same / inconclusive | median pairs | figures that said so (times) |
|---|---|---|---|---|
{rows}
"""


if __name__ == "__main__":
    main()
