"""Advice checked by replay: does the advised setting keep its budget live, and does any alternative do better?

    python benchmarks/advice.py --azure-code CODE.csv --azure-conv CONV.csv [--runs 3] [--alternatives 20]
                                [--write docs/advice-check.md]

For each trace: two runs of 20 s give the steps that the cost model is fitted to, then `loadgen advise --verify`
does the rest. Of one run each of 20 settings that are all but equal, some look better by chance: the best of those
that do are run again, in turn with the advised one, and only what is better there beats it. Without the two files
only the trace of bursts of short chats is checked.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.experiment.bursty_trace import bursty_trace
from loadgen.trace.parquet import write_trace

LOADGEN = [sys.executable, "-m", "loadgen"]
PRESENT = "--policy fixed-window --window-ms 100 --max-batch-size 4"
FITTED_TO = (
    "--policy continuous --max-batch-size 16",
    "--policy dynamic --max-batch-size 8 --max-wait-ms 50",
)


# Alternatives that look better are run again, so many of them and so often.
CONFIRMED, CONFIRMATIONS = 3, 3
# An alternative beats the advised setting with a p99 below this share of its.
BEATS = 0.9


@dataclass(frozen=True)
class Case:
    """A trace, cut to what a small model on a CPU serves. budget_ms: near what the best setting can keep."""

    name: str
    trace: Path
    shape: tuple[str, ...]
    budget_ms: int


def cases(azure_code: Path | None, azure_conv: Path | None, seconds: float, folder: Path) -> list[Case]:
    lasts = ("--duration", f"{seconds:g}s")
    small = ("--scale-input", "0.01", "--max-input", "32", "--scale-output", "0.3", "--max-output", "64")
    write_trace(bursty_trace(), folder / "bursty.parquet")
    found = [Case("bursts of chats", folder / "bursty.parquet", (*lasts, "--request-rate", "4"), 1500)]
    for name, source, rate, budget_ms in (
        ("Azure code", azure_code, "5", 750),
        ("Azure conv", azure_conv, "6", 1500),
    ):
        if source is not None:
            trace = folder / f"{name.replace(' ', '-')}.parquet"
            subprocess.run(
                [*LOADGEN, "trace", "convert", str(source), "-o", str(trace)], check=True, capture_output=True
            )
            shape = ("--busiest", f"{seconds:g}s", "--request-rate", rate, *small)
            found.append(Case(name, trace, shape, budget_ms))
    return found


def logs_of(case: Case, folder: Path) -> list[Path]:
    """Step and request logs of two runs of the trace, whose seeds are not that of the runs judged."""
    found = []
    for number, policy in enumerate(FITTED_TO):
        steps, requests = folder / f"steps-{number}.parquet", folder / f"requests-{number}.parquet"
        ran = subprocess.run(
            [
                *LOADGEN, "replay", str(case.trace), *case.shape, "--seed", str(100 + number), "--ignore-eos",
                "--chars-per-token", "1", "--out-dir", str(folder / "fits"), "--max-lateness", "1s", "--serve",
                f"{policy} --timeout none --step-log {steps} --request-log {requests}",
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ran.returncode:
            raise SystemExit(f"{case.name}: {ran.stderr}")
        found += [steps, requests]
    return found


def checked(case: Case, folder: Path, runs: int, alternatives: int) -> dict[str, Any]:
    folder.mkdir()
    fits = [word for log in logs_of(case, folder) for word in ("--fit", str(log))]
    ran = subprocess.run(
        [
            *LOADGEN, "advise", str(case.trace), *case.shape, "--latency-budget", f"{case.budget_ms}ms", *fits,
            "--present", PRESENT, "--verify", "--verify-runs", str(runs), "--alternatives", str(alternatives),
            "--max-lateness", "1s", "--out-dir", str(folder), "--json",
        ],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{case.name}: exit code {ran.returncode}")
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


def seemingly_better(rows: dict[str, Any]) -> list[str]:
    """Alternatives that kept the budget in each run with a median p99 that beats the advised one's, best first."""
    p99 = {name: row["figures"]["latency_p99"] for name, row in rows.items()}
    found = [
        name
        for name, row in rows.items()
        if name.startswith("alternative")
        and row["limits_held"] == row["runs"]
        and p99[name] < BEATS * p99["advised"]
    ]
    return sorted(found, key=lambda name: p99[name])


def again(case: Case, folder: Path, names: list[str]) -> dict[str, Any]:
    """Rows by name of these targets of the check in `folder`, each run CONFIRMATIONS times more, in turn."""
    (kept,) = folder.glob("advice-experiment-*/experiment.json")
    document = json.loads(kept.read_text(encoding="utf-8"))["settings"]["document"]
    document["target"] = [one for one in document["target"] if one["name"] in names]
    file = folder / "again.toml"
    file.write_text(toml(document), encoding="utf-8")
    ran = subprocess.run(
        [
            *LOADGEN, "experiment", str(file), "--trace", str(case.trace), "--repeats", str(CONFIRMATIONS),
            "--max-lateness", "1s", "--out-dir", str(folder / "again"), "--json",
        ],
        stdout=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    if ran.returncode not in (0, 1):
        raise SystemExit(f"{case.name}: exit code {ran.returncode}")
    return {row["target"]: row for row in json.loads(ran.stdout)["rows"]}


def toml(document: dict[str, Any]) -> str:
    """An experiment's document as TOML; its plain values are written as JSON writes them."""
    plain = {name: value for name, value in document.items() if not _is_table(value)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in plain.items()]
    for name, value in document.items():
        if _is_table(value):
            head = f"[[{name}]]" if isinstance(value, list) else f"[{name}]"
            for table in value if isinstance(value, list) else [value]:
                told = {key: one for key, one in table.items() if one is not None}
                lines += [head, *(f"{key} = {json.dumps(one)}" for key, one in told.items())]
    return "\n".join(lines) + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def line(case: Case, folder: Path, found: dict[str, Any]) -> str:
    rows = {row["target"]: row for row in found["verified"]}
    for name, row in rows.items():
        print(f"{name:16} p99 {row['figures']['latency_p99']:.3f} s, held {row['limits_held']}", flush=True)
    advised, present = rows["advised"], rows["present"]
    looked = seemingly_better(rows)
    others = sum(name.startswith("alternative") for name in rows)
    told = f"{len(looked)} of {others}"
    if looked:
        confirmed = again(case, folder, ["advised", *looked[:CONFIRMED]])
        better = seemingly_better(confirmed)
        low, high = confirmed["advised"]["spread"]["latency_p99"]
        advised_p99 = confirmed["advised"]["figures"]["latency_p99"]
        best = min(row["figures"]["latency_p99"] for name, row in confirmed.items() if name != "advised")
        told += (
            f"; {len(better)} of the best {len(confirmed) - 1} again (best {best * 1e3:.0f} ms, advised "
            f"{advised_p99 * 1e3:.0f} ms ({low * 1e3:.0f} .. {high * 1e3:.0f}))"
        )
    low, high = advised["spread"]["latency_p99"]
    cells = [
        case.name,
        f"{case.budget_ms} ms",
        f"`{found['flags']}`",
        f"{found['advised']['tail_s'] * 1e3:.0f} ms",
        f"{advised['figures']['latency_p99'] * 1e3:.0f} ms ({low * 1e3:.0f} .. {high * 1e3:.0f})",
        f"{advised['limits_held']} of {advised['runs']}",
        f"{present['figures']['latency_p99'] * 1e3:.0f} ms, {present['limits_held']} of {present['runs']}",
        told,
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--azure-code", type=Path)
    parser.add_argument("--azure-conv", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--alternatives", type=int, default=20)
    parser.add_argument("--only", default="", help="traces whose name holds this")
    parser.add_argument("--write", type=Path, help="write the table here, as Markdown")
    given = parser.parse_args()
    started_s = time.monotonic()
    lines = []
    with tempfile.TemporaryDirectory(prefix="loadgen-") as name:
        folder = Path(name)
        for number, case in enumerate(cases(given.azure_code, given.azure_conv, given.seconds, folder)):
            if given.only in case.name:
                place = folder / str(number)
                lines.append(line(case, place, checked(case, place, given.runs, given.alternatives)))
                print(lines[-1], flush=True)
    text = PAGE.format(
        runs=given.runs,
        alternatives=given.alternatives,
        confirmed=CONFIRMED,
        confirmations=CONFIRMATIONS,
        seconds=given.seconds,
        rows="\n".join(lines),
        minutes=(time.monotonic() - started_s) / 60,
    )
    if given.write:
        given.write.write_text(text, encoding="utf-8")


PAGE = """\
# Advice checked by replay

`python benchmarks/advice.py --azure-code CODE.csv --azure-conv CONV.csv --runs {runs} --alternatives
{alternatives} --write docs/advice-check.md` made this page in {minutes:.0f} minutes. Each trace is cut to
{seconds:g} s that a small model on a CPU serves, with the doubled peak; the cost model is fitted to other
runs of it. Runs of each setting: {runs}, in turn; p99 is their median with the lowest and highest.
"Held": runs in which p99 kept the budget and at most 1 % failed. An alternative (one of the {alternatives}
next best of the simulation) looks better if it holds in every run with a p99 more than 10 % lower. They differ
little, so that some do by chance: the best {confirmed} that do were run {confirmations} times more, in turn with
the advised setting, and the last column tells how many were better again, by medians.

| trace | budget | advised | p99 simulated | p99 live | held | present: p99, held | look better; again |
|---|---|---|---|---|---|---|---|
{rows}
"""


if __name__ == "__main__":
    main()
