"""`loadgen advise --verify`: the advised setting and others, replayed in turn at the bundled server."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.advise.advice import Advice
from loadgen.advise.question import Question
from loadgen.advise.search import Budget
from loadgen.cli import console
from loadgen.cli.bench import Bench
from loadgen.durations import format_duration
from loadgen.errors import ExitCode, LoadgenError, UsageError
from loadgen.experiment.experiment import Ended, results_of, run_missing
from loadgen.experiment.matrix import Cell
from loadgen.experiment.result import Row, rows_of


@dataclass(frozen=True, slots=True)
class Checked:
    """What the replay showed. rows: of the targets that were run; ended: how it came to its end."""

    rows: Sequence[Row]
    ended: Ended

    @property
    def exit_code(self) -> int:
        """That of the advised setting: 0 only where it held in every run that was asked for."""
        if self.ended.signal_name is not None:
            return 128 + signal.Signals[self.ended.signal_name]
        advised = next((row for row in self.rows if row.target == "advised"), None)
        if advised is None or self.ended.failed:
            return int(ExitCode.RUN_FAILED)
        if advised.invalid:
            return int(ExitCode.RUN_INVALID)
        return int(ExitCode.OK if advised.kept == advised.runs else ExitCode.LIMIT_BROKEN)


def judged_percentile(budget: Budget) -> str:
    """The budget's percentile as limits name it. Raises UsageError for one that they cannot."""
    name = f"p{budget.percent:g}"
    if name not in ("p50", "p90", "p95", "p99"):
        raise UsageError(
            f"--verify cannot judge --percentile {budget.percent:g}", hint="give 50, 90, 95 or 99"
        )
    return name


def check(advice: Advice, question: Question, params: Mapping[str, Any]) -> Checked:
    """Replay the advised setting, the present one and alternatives, in turn. params: the verb's options by name."""
    budget = advice.budget
    flags = {"advised": advice.flags}
    if question.present is not None:
        flags["present"] = f"{advice.serve} {question.present}".strip()
    for number, one in enumerate(advice.outlooks[1 : params["alternatives"] + 1], 1):
        flags[f"alternative {number}"] = f"{advice.serve} {one.setting.flags}".strip()
    document = {
        "name": "advice",
        "repeats": params["verify_runs"],
        "send": {"ignore_eos": True, "chars_per_token": params["chars_per_token"]},
        "target": [{"name": name, "serve": text} for name, text in flags.items()],
        "load": [{"name": "trace", **question.options}],
        "slo": [
            f"latency {judged_percentile(budget)} <= {budget.latency_s * 1e3:g}ms",
            f"error_rate <= {budget.error_rate * 100:g}%",
        ],
    }
    settings: dict[str, Any] = {
        "document": document, "where": "advice", "cost": None, "trace": None, "repeats": None, "only": [],
        "seed": params["seed"], "slo": [], "max_lateness": params["max_lateness"], "ready_within": "10m",
        "find_capacity": False, "precision": 5.0, "confirm": 3,
        "api_key": None, "api_key_file": None, "header": None, "out_dir": params["out_dir"],
    }  # fmt: skip
    bench = Bench(settings, trace=question.trace)
    folder, cells = bench.folder, bench.cells
    length = format_duration(bench.schedules["trace"].end_ns / 1e9)
    console.note(f"replaying {len(cells)} runs of {length}; kept in {folder.path}")
    try:
        ended = run_missing(folder, cells, bench.make, _tell_made, _tell_failed)
    except KeyboardInterrupt:
        ended = Ended("SIGINT")
    if ended.signal_name is not None or ended.failed:
        console.note(f"runs are missing; make them with: loadgen experiment --resume {folder.path}")
    return Checked(rows_of(results_of(folder, cells), ["trace"], list(flags)), ended)


def _tell_made(cell: Cell, path: Path, left: int) -> None:
    console.note(f"{cell.target}: {path.name}; {left} left")


def _tell_failed(cell: Cell, error: LoadgenError) -> None:
    console.note(f"{cell.target}: failed")
    console.print_error(error)
