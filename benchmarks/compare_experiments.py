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
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from loadgen.trace.parquet import write_trace
from loadgen.trace.schema import SCHEMA
from loadgen.trace.trace import Trace, TraceMetadata

STEPS = "--policy continuous --max-batch-size {batch} --step-delay-ms {ms}"
# Few arrivals a second: the window, which opens at an arrival and holds it back, is then most of a latency.
WINDOW = "--policy fixed-window --window-ms {ms} --max-batch-size 8 --step-delay-ms 5"
RUN_S = 3.0
# Figures that a row of the table names.
NAMED = 5
LOADGEN = [sys.executable, "-m", "loadgen"]


@dataclass(frozen=True)
class Kind:
    """What is planted. expected: the verdict that is right; of `same`, better and worse are both wrong.

    rate: requests a second; well below what the server can do, where no queue comes and goes by chance. shape:
    options of the schedule.
    """

    name: str
    a: str
    b: str
    expected: str
    rate: int = 6
    shape: tuple[str, ...] = ()

    def turned(self, name: str) -> Kind:
        """The same change the other way round."""
        return replace(self, name=name, a=self.b, b=self.a, expected="better")


SAME = Kind("nothing: the same flags", STEPS.format(batch=8, ms=50), STEPS.format(batch=8, ms=50), "same")
SLOWER = Kind("steps 10 % slower", STEPS.format(batch=8, ms=50), STEPS.format(batch=8, ms=55), "worse")
LONGER = Kind("window of 100 ms instead of 50", WINDOW.format(ms=50), WINDOW.format(ms=100), "worse")
# Two rows are enough for the trace, and too few for twice its peak.
SMALLER = Kind(
    "batch of 2 instead of 8, under a peak",
    STEPS.format(batch=8, ms=50),
    STEPS.format(batch=2, ms=50),
    "worse",
    rate=3,
    shape=("--inject-peak", "--peak-width", "500ms", "--peak-at", "30%"),
)
CHANGES = (
    SLOWER,
    SMALLER,
    LONGER,
    SLOWER.turned("steps 9 % faster"),
    LONGER.turned("window of 50 ms instead of 100"),
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
    """Bursty arrivals, short prompts, answers of 6 to 15 tokens."""
    rng = np.random.default_rng(4)
    gaps = rng.gamma(0.5, size=count)
    arrivals_ns = (np.cumsum(gaps) / gaps.sum() * RUN_S * 1e9).astype(np.int64)
    given: dict[str, Any] = {
        "arrival_ns": arrivals_ns,
        "input_tokens": rng.integers(4, 24, count),
        "output_tokens": rng.integers(6, 16, count),
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
        "--out-dir", str(folder / "runs"), *kind.shape,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1, 3):
        raise SystemExit(f"{kind.name}: exit code {done.returncode}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def experiments(kind: Kind, count: int, lanes: int, max_pairs: int, folder: Path) -> list[dict[str, Any]]:
    """`count` of them, `lanes` at a time, each lane with two servers of its own."""
    write_sample(folder / "trace.parquet", round(kind.rate * RUN_S))
    with ExitStack() as stack, ThreadPoolExecutor(lanes) as pool:

        def lane(place: int) -> list[dict[str, Any]]:
            urls = servers[2 * place], servers[2 * place + 1]
            return [
                experiment(kind, urls, folder, number, max_pairs) for number in range(place, count, lanes)
            ]

        flags = [kind.a, kind.b] * lanes
        servers = list(pool.map(lambda one: stack.enter_context(serving(one, folder)), flags))
        return [one for found in pool.map(lane, range(lanes)) for one in found]


def row(kind: Kind, found: Sequence[dict[str, Any]]) -> str:
    verdicts = [one["verdict"] for one in found]
    counts = " / ".join(str(verdicts.count(v)) for v in ("worse", "better", "same", "inconclusive"))
    pairs = sorted(len(one["base"]) for one in found)
    named = Counter(
        (cell["window"], f"{cell['metric']} {cell['statistic'] or ''}".strip())
        for one in found
        for cell in one["cells"]
        if cell["verdict"] == kind.expected and (cell["decides"] or cell["window"] != "overall")
    )
    most = [
        f"{name}{'' if window == 'overall' else f' @{window}'} ({times})"
        for (window, name), times in named.most_common(NAMED)
    ]
    return f"| {kind.name} | {len(found)} | {counts} | {pairs[len(pairs) // 2]} | {', '.join(most) or '-'} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--same", type=int, default=20, help="experiments with nothing changed")
    parser.add_argument("--changed", type=int, default=10, help="experiments of each planted change")
    parser.add_argument("--max-pairs", type=int, default=10)
    parser.add_argument("--lanes", type=int, default=5, help="experiments at a time")
    parser.add_argument("--only", default="", help="kinds whose name holds this")
    parser.add_argument("--write", type=Path, help="write the table here, as Markdown")
    given = parser.parse_args()
    started_s = time.monotonic()
    kinds = [(SAME, given.same), *((kind, given.changed) for kind in CHANGES)]
    rows = []
    with tempfile.TemporaryDirectory(prefix="loadgen-") as name:
        for kind, count in kinds:
            if count and given.only in kind.name:
                found = experiments(kind, count, given.lanes, given.max_pairs, Path(name))
                rows.append(row(kind, found))
                print(f"{rows[-1]}  {(time.monotonic() - started_s) / 60:.1f} min", flush=True)
    page = PAGE.format(
        same=given.same,
        changed=given.changed,
        max_pairs=given.max_pairs,
        lanes=given.lanes,
        minutes=(time.monotonic() - started_s) / 60,
        run_s=RUN_S,
        rows="\n".join(rows),
    )
    if given.write:
        given.write.write_text(page, encoding="utf-8")


PAGE = """\
# `loadgen ab` against real servers

`python benchmarks/compare_experiments.py --same {same} --changed {changed} --max-pairs {max_pairs} --lanes {lanes}
--write docs/compare-experiments.md` made this page in {minutes:.0f} minutes. Each experiment is the real command:
at most {max_pairs} pairs of runs of {run_s:.0f} s, two live servers of the tiny model on the machine that also
sends, the default levels of `loadgen ab`; {lanes} experiments ran at a time, so each meets the noise of the others.
A server's steps take a real sleep, so that a planted change is as large as it says whatever else the machine does.

| what differs | experiments | worse / better / same / inconclusive | median pairs | figures that said so (times) |
|---|---|---|---|---|
{rows}
"""


if __name__ == "__main__":
    main()
