"""Run folders of two versions, made by hand: each run is some requests whose latencies are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loadgen.compare.compared_run import ComparedRun, load_run
from support import runs

_MINUTE_NS = 60_000_000_000
Rows = list[runs.Row]


def rows(latency_s: float, *, count: int = 40, failed: int = 0, outcome: str = "timeout_total") -> Rows:
    """`count` requests, ten a second; the first token comes at a quarter of the latency, which grows a little."""
    found = []
    for number in range(count):
        planned_s = number / 10
        own_s = latency_s * (1 + number / count)
        if number < failed:
            found.append(runs.failed(planned_s, outcome, end_s=planned_s + 5))
        else:
            found.append(
                runs.ok(planned_s, first_s=planned_s + own_s / 4, last_s=planned_s + own_s, trace_row=number)
            )
        found[-1]["trace_row"] = number
        found[-1]["input_tokens_planned"] = 10 + number
        found[-1]["output_tokens_planned"] = 2
    return found


def run(folder: Path, made: Rows, *, minute: int, **facts: Any) -> ComparedRun:
    """A run that began at `minute`."""
    settings = {"length_s": 4.0, **facts}
    written = runs.written(folder, made, started_unix_ns=minute * _MINUTE_NS, **settings)
    return load_run(written.path)


def interleaved(
    folder: Path,
    base_s: Sequence[float],
    candidate_s: Sequence[float],
    make: Callable[[float], Rows] = rows,
    **facts: Any,
) -> tuple[list[ComparedRun], list[ComparedRun]]:
    """Runs with these latencies, base and candidate in turn."""
    return (
        [run(folder, make(one), minute=2 * number, **facts) for number, one in enumerate(base_s)],
        [run(folder, make(one), minute=2 * number + 1, **facts) for number, one in enumerate(candidate_s)],
    )
