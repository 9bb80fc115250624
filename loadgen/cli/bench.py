"""Bench: an experiment ready to run, whichever verb runs it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Any

from loadgen.cli import shape_options as options
from loadgen.cli.live import LiveDisplay
from loadgen.cli.plan import plan as plan_verb
from loadgen.cli.report import criteria_from
from loadgen.compare.ab_target import started
from loadgen.durations import parse_duration_s
from loadgen.errors import UsageError
from loadgen.experiment.bursty_trace import bursty_trace
from loadgen.experiment.experiment import MadeRun
from loadgen.experiment.experiment_folder import ExperimentFolder
from loadgen.experiment.matrix import Cell, Matrix, matrix_from
from loadgen.experiment.sending import Sending, Sent
from loadgen.plan.planner import plan
from loadgen.plan.prompts import CHARS_PER_TOKEN, PromptMaker
from loadgen.plan.schedule import Schedule
from loadgen.plan.shape import Shape
from loadgen.replay.reach import Access
from loadgen.replay.secrets import parse_headers, read_key_file, redacted_command
from loadgen.replay.target import Timeouts
from loadgen.replay.template_file import read_template
from loadgen.replay.worker import Progress
from loadgen.report.report import build_report, write_report
from loadgen.report.validity import Thresholds
from loadgen.simulate.cost_model import CostModel, cost_model_from
from loadgen.simulate.simulated_run import SimulatedRun, server_config, simulate_run
from loadgen.trace.parquet import read_trace, write_trace
from loadgen.trace.trace import Trace

WIDE = 240  # columns: more than any table of an experiment has
_TRACE_FILE = "trace.parquet"
# What [send] may say, with the defaults of replay.
_SEND: dict[str, Any] = {
    "endpoint_type": "chat",
    "template": None,
    "model": None,
    "stream": None,
    "ignore_eos": False,
    "chars_per_token": CHARS_PER_TOKEN,
    "timeout": "10m",
    "drain": "60s",
    "workers": 1,
    "realtime": False,
    "insecure": False,
}


class Bench:
    """An experiment ready to run: its matrix, its schedules, and how a cell is made.

    schedules: by load, where they are known; else they are planned from the loads' options.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        folder: ExperimentFolder,
        schedules: Mapping[str, Schedule] | None = None,
    ) -> None:
        self.folder = folder
        self.seed: int = given["seed"]
        self.matrix = matrix_of(given)
        cost = given["cost"]
        self.cost: CostModel | None = None if cost is None else cost_model_from(cost["model"], where="cost")
        self.cost_from = "" if cost is None else str(cost["from"])
        self.trace_path, self.trace = _trace(given, self.matrix, folder)
        self.send = _send(self.matrix)
        prompts = PromptMaker(
            self.seed, self.send["chars_per_token"], self.trace.metadata.prefix_block_tokens
        )
        key_file = given["api_key_file"]
        key = read_key_file(Path(key_file)) if key_file else given["api_key"]
        timeout = str(self.send["timeout"])
        self.sending = Sending(
            prompts=prompts,
            endpoint_type=self.send["endpoint_type"],
            template=read_template(Path(self.send["template"])) if self.send["template"] else None,
            model=self.send["model"],
            access=Access(
                headers=parse_headers(given["header"] or (), key), verify_tls=not self.send["insecure"]
            ),
            stream=self.send["stream"],
            ignore_eos=self.send["ignore_eos"],
            timeouts=Timeouts(
                total_s=None if timeout == "none" else parse_duration_s(timeout, option="timeout of [send]")
            ),
            drain_s=parse_duration_s(self.send["drain"], option="drain of [send]"),
            realtime=self.send["realtime"],
            workers=self.send["workers"],
            seed=self.seed,
        )
        self.prompts = prompts
        self.ready_within_s = parse_duration_s(given["ready_within"], option="--ready-within")
        self.criteria = criteria_from(
            slo=[*self.matrix.slo, *given["slo"]], max_error_rate=None, max_lateness=given["max_lateness"]
        )
        # Whoever grants lateness grants what makes it: both only say how busy the generator's machine may be.
        allowed = self.criteria.thresholds
        self.thresholds = Thresholds(
            allowed.max_lateness_s, allowed.ttft_share, max(allowed.max_loop_lag_s, allowed.max_lateness_s)
        )
        self.schedules: Mapping[str, Schedule] = schedules or {
            load.name: plan(self.trace, shape_of_load(load.options, seed=self.seed, where=load.name))
            for load in self.matrix.loads
        }

    @property
    def cells(self) -> list[Cell]:
        return self.matrix.cells(self.seed)

    def make(self, cell: Cell) -> MadeRun:
        """One run of a cell, reported."""
        target, load = self.matrix.target(cell.target), self.matrix.load(cell.load)
        return self.run_at(
            cell.name, target.with_flags(load.serve), self.schedules[cell.load], health=target.health
        )

    def run_at(self, name: str, target: Any, schedule: Schedule, *, health: str | None = None) -> MadeRun:
        """One run of `schedule` at a target, live or simulated, reported."""
        if self.cost is not None:
            folder = simulate_run(
                SimulatedRun(
                    name=name,
                    out_dir=self.folder.path,
                    schedule=schedule,
                    trace_name=self.trace_path.name,
                    trace_rows=self.trace.num_rows,
                    config=server_config(target.text),
                    cost=self.cost,
                    cost_from=self.cost_from,
                    prompts=self.prompts,
                    seed=self.seed,
                    command=_command(),
                    options=dict(self.send),
                )
            )
            signal_name = None
        else:
            sent = Sent(
                name,
                self.folder.path,
                schedule,
                self.trace_path.name,
                self.trace.num_rows,
                _command(),
                dict(self.send),
            )
            with started(target, ready_within_s=self.ready_within_s, health=health) as url:
                if sys.stderr.isatty():
                    with LiveDisplay(schedule) as display:
                        folder, ending = self.sending.run(url, sent, display.show)
                else:
                    folder, ending = self.sending.run(url, sent, _silent)
            signal_name = ending.signal_name
        write_report(build_report(folder, self.thresholds, self.criteria.limits), folder)
        return MadeRun(folder.path, signal_name)


def shape_of_load(given: Mapping[str, Any], *, seed: int, where: str) -> Shape:
    """The Shape of options by their names, the rest as plan has it. Raises UsageError naming `where`."""
    names = signature(options.shape_from).parameters
    if unknown := [name for name in given if name not in names]:
        raise UsageError(
            f"load {where}: there is no option {unknown[0]}",
            hint="the options of `loadgen plan`, without dashes",
        )
    defaults = {name: one.default for name, one in signature(plan_verb).parameters.items() if name in names}
    values = {**defaults, "seed": seed, **given}
    if values.get("rate_series") is not None:
        values["rate_series"] = Path(values["rate_series"])
    try:
        return options.shape_from(**values)
    except (TypeError, AttributeError) as exc:
        raise UsageError(
            f"load {where}: a value has another form ({exc})", hint='times are texts: duration = "30s"'
        ) from exc


def matrix_of(given: Mapping[str, Any]) -> Matrix:
    """The matrix of what was given, narrowed to what was asked for."""
    where = str(given["where"])
    matrix = matrix_from(given["document"], where=where, beside=Path(where).parent)
    wanted = given["only"]
    if unknown := [name for name in wanted if name not in [one.name for one in matrix.targets]]:
        raise UsageError(
            f"--only {unknown[0]}: no such target",
            hint=f"one of: {', '.join(one.name for one in matrix.targets)}",
        )
    targets = tuple(one for one in matrix.targets if not wanted or one.name in wanted)
    if given["cost"] is not None and (live := [one.name for one in targets if one.serve is None]):
        raise UsageError(
            f"--simulate: target {live[0]!r} is not the bundled server", hint="narrow the targets with --only"
        )
    _send(matrix)
    return Matrix(
        matrix.name, targets, matrix.loads, given["repeats"] or matrix.repeats, matrix.trace, matrix.about,
        matrix.send, matrix.slo,
    )  # fmt: skip


def _send(matrix: Matrix) -> dict[str, Any]:
    if unknown := [name for name in matrix.send if name not in _SEND]:
        raise UsageError(f"[send]: there is no {unknown[0]}", hint=f"one of: {', '.join(_SEND)}")
    return {**_SEND, **matrix.send}


def _trace(given: Mapping[str, Any], matrix: Matrix, folder: ExperimentFolder) -> tuple[Path, Trace]:
    """The trace that was given, or the experiment's own, or bursts of short chats, which the folder then keeps."""
    path = Path(given["trace"]) if given["trace"] is not None else matrix.trace
    if path is None:
        path = folder.path / _TRACE_FILE
        if not path.is_file():
            write_trace(bursty_trace(seed=given["seed"]), path)
    return path, read_trace(path)


def _command() -> tuple[str, ...]:
    return tuple(redacted_command(["loadgen", *sys.argv[1:]]))


def _silent(_: Progress) -> None:
    """Where nobody watches, a line for each run is enough."""
