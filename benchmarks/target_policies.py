"""Four policies of the bundled server on one list of arrivals: what each can carry, its latency, and why.

    python benchmarks/target_policies.py [--repeats 3] [--write docs/target-policies.md]

Each run is the real `loadgen experiment`: a server of its own for every run, policies in a new order in each
repeat. Eight minutes on two cores that have other work.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Any

POLICIES = {
    "serial": "--policy serial",
    "fixed-window": "--policy fixed-window --window-ms 100 --max-batch-size 8",
    "dynamic": "--policy dynamic --max-wait-ms 150 --max-batch-size 8",
    "continuous": "--policy continuous --max-batch-size 8",
}
CAPACITY, LOW = "all at once", "3 /s"
LIMITS_OFF = "--timeout none --max-queue-size 1000"
LOADS: dict[str, dict[str, float | str]] = {
    CAPACITY: {"num_requests": 100, "speedup": 1000.0},
    LOW: {"request_rate": 3.0, "duration": "12s"},
}
COLUMNS = {
    "throughput": "served /s",
    "latency_mean": "mean",
    "latency_p99": "p99",
    "useful_row_share": "useful rows",
    "mean_batch": "mean batch",
    "queue_share": "queue share",
    "engine_active_share": "engine busy",
}
Figures = dict[str, float]

ABOUT = """
# Four policies on one list of arrivals

`python benchmarks/target_policies.py --repeats {repeats} --write docs/target-policies.md` made this page in
{minutes:.0f} minutes, on the CPU that also sent. Trust the ratios, not the milliseconds.

The model is `cpu-25m`, and a batch has 8 rows at most. Requests are bursts of short chats (prompts of 8 to 32
tokens, answers of 4 to 128, median 20), the same in every run of a load; nothing is refused and nothing times
out. "All at once" is 100 requests at one instant: what a policy can carry. "3 /s" is 12 s at that rate. Median
of {repeats}, interleaved, each with a fresh server.
"""
HEADS = """
Useful rows: rows of a step whose token somebody waited for. Mean batch: useful rows of a step, as a mean over
the answers. Queue share: time in queues, of all the time that requests spent at the server. Engine busy: time
within steps, of wall time.
"""
WHY = """
## What each row says

- **serial**, all at once: the engine is {all[serial][engine_active_share]} busy with one row a step, and a step
  of one row costs nearly what a step of eight does. That is {all[serial][answers]} answers a busy second, and
  {all[serial][queue_share]} of a request's time is waiting for those before it.
- **fixed-window**, all at once: the backlog leaves in batches of eight, and a batch computes each of its rows
  until its longest answer ends: {all[fixed-window][useful_row_share]} of the rows are useful. Between two
  batches the engine waits for the next tick: {all[fixed-window][engine_active_share]} busy.
- **dynamic**, all at once: the same batches and as many lost rows ({all[dynamic][useful_row_share]} useful),
  without the wait for a tick, since a full batch starts at once.
- **continuous**, all at once: who ends leaves, and the next joins before the following step. Every row is
  useful ({all[continuous][useful_row_share]}), and the batch stays full ({all[continuous][mean_batch]} of 8).
  It serves {all[continuous][answers]} answers a busy second against {all[dynamic][answers]} of dynamic: less than
  the useful rows alone would give, since prompts are read one or two a pass as they join, where a batch reads
  eight at a time.
- **serial**, 3 /s: requests come in bursts, and a burst is served one by one: {low[serial][queue_share]} of the
  time is queue, though the engine idles {low[serial][idle]} of it.
- **fixed-window**, 3 /s: a burst goes together, but it waits for the tick, and its answers for the longest of
  them ({low[fixed-window][useful_row_share]} of the rows are useful).
- **dynamic**, 3 /s: eight seldom come within 150 ms, so a batch starts when its first request has waited that
  long: mean {low[dynamic][latency_mean]}. Such a wait pays at rates that fill batches, not here.
- **continuous**, 3 /s: nobody waits for a batch to fill or to end: {low[continuous][queue_share]} of the time
  is queue, mean {low[continuous][latency_mean]}.
"""


def experiment_of(repeats: int) -> str:
    lines = ['name = "target-policies"', f"repeats = {repeats}"]
    lines += ["[send]", "ignore_eos = true", "chars_per_token = 1"]
    for name, flags in POLICIES.items():
        lines += ["[[target]]", f'name = "{name}"', f'serve = "{flags}"']
    for name, shape in LOADS.items():
        lines += ["[[load]]", f'name = "{name}"', f'serve = "{LIMITS_OFF}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in shape.items()]
    return "\n".join(lines) + "\n"


def measured(repeats: int, folder: Path) -> dict[tuple[str, str], Figures]:
    """Medians over the repeats, by load and policy. Exits where a request failed: then nothing is comparable."""
    file = folder / "target-policies.toml"
    file.write_text(experiment_of(repeats), encoding="utf-8")
    # The sender shares the cores with the server; its lateness is part of each latency, and small beside it.
    command = [sys.executable, "-m", "loadgen", "experiment", str(file), "--out-dir", str(folder)]
    done = subprocess.run(
        [*command, "--json", "--no-html", "--max-lateness", "100ms"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 4):
        sys.exit(f"loadgen experiment ended with {done.returncode}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"]
    for row in rows:
        if row["figures"]["failed"] or row["figures"]["rejected"]:
            sys.exit(f"{row['load']}, {row['target']}: not every request was served")
        if row["invalid"]:
            print(f"{row['load']}, {row['target']}: the sender was late", file=sys.stderr)
    return {(row["load"], row["target"]): {key: row["figures"][key] for key in COLUMNS} for row in rows}


def verdicts(found: dict[tuple[str, str], Figures]) -> list[tuple[str, float, float]]:
    """(what, the ratio, the least it should be)."""
    carried = {name: found[CAPACITY, name]["throughput"] for name in POLICIES}
    means = {name: found[LOW, name]["latency_mean"] for name in POLICIES}
    return [
        ("continuous / dynamic, all at once", carried["continuous"] / carried["dynamic"], 1.5),
        ("dynamic / serial, all at once", carried["dynamic"] / carried["serial"], 1.4),
        ("serial's mean / continuous's mean at 3 /s", means["serial"] / means["continuous"], 2.0),
    ]


def shown(key: str, value: float) -> str:
    if key.endswith("share"):
        return f"{value:.0%}"
    if key.startswith("latency"):
        return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.0f} ms"
    return f"{value:.3g}"


def why(found: dict[tuple[str, str], Figures]) -> str:
    """Each row in words, with its own figures."""
    told = {
        load: {
            name: {
                **{key: shown(key, found[load, name][key]) for key in COLUMNS},
                "answers": f"{found[load, name]['throughput'] / found[load, name]['engine_active_share']:.3g}",
                "idle": f"{1 - found[load, name]['engine_active_share']:.0%}",
            }
            for name in POLICIES
        }
        for load in LOADS
    }
    return WHY.format(all=told[CAPACITY], low=told[LOW])


def page(found: dict[tuple[str, str], Figures], repeats: int, minutes: float) -> str:
    heads = ["load", "policy", *COLUMNS.values()]
    rows = [
        [load, name, *(shown(key, found[load, name][key]) for key in COLUMNS)]
        for load in LOADS
        for name in POLICIES
    ]
    judged = [[what, f"{least:g}", f"{ratio:.2f}"] for what, ratio, least in verdicts(found)]
    parts = [
        *wrapped(ABOUT.format(repeats=repeats, minutes=minutes)),
        "\n".join(table(heads, rows)),
        *wrapped(HEADS + why(found)),
        "## What it was held to",
        "\n".join(table(["ratio", "wanted", "found"], judged)),
    ]
    return "\n\n".join(parts) + "\n"


def wrapped(text: str) -> list[str]:
    """Its paragraphs, each line filled anew."""
    found = []
    for block in text.strip().split("\n\n"):
        items = ("\n" + block).split("\n- ") if block.startswith("- ") else ["", block]
        mark = "- " if block.startswith("- ") else ""
        lines = [
            textwrap.fill(" ".join(f"{mark}{item}".split()), 112, subsequent_indent=" " * len(mark))
            for item in items[1:]
        ]
        found.append("\n".join(lines))
    return found


def table(heads: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in [heads, ["---"] * len(heads), *rows]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", type=Path, help="the page, as Markdown")
    flags = parser.parse_args()
    start_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="target-policies-") as folder:
        found = measured(flags.repeats, Path(folder))
    text = page(found, flags.repeats, (time.monotonic() - start_s) / 60)
    print(text)
    if flags.write is not None:
        flags.write.write_text(text, encoding="utf-8")
    if short := [what for what, ratio, least in verdicts(found) if ratio < least]:
        sys.exit(f"short of what is wanted: {', '.join(short)}")


if __name__ == "__main__":
    main()
