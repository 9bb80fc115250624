"""Bench: an experiment ready to run, whichever verb runs it."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from loadgen.cli import shape_options as options
from loadgen.cli.live import LiveDisplay
from loadgen.cli.report import criteria_from
from loadgen.compare.ab_target import AbTarget
from loadgen.durations import parse_duration_s
from loadgen.errors import ScheduleError, UsageError
from loadgen.experiment.bursty_trace import bursty_trace
from loadgen.experiment.cell_run import CellRun, LiveRun
from loadgen.experiment.experiment import MadeRun
from loadgen.experiment.experiment_folder import ExperimentFolder
from loadgen.experiment.matrix import Cell, Load, Matrix, matrix_from
from loadgen.experiment.sending import Sending, Sent
from loadgen.experiment.typed_options import typed
from loadgen.plan.planner import plan
from loadgen.plan.prompts import CHARS_PER_TOKEN, PromptMaker
from loadgen.plan.schedule import Schedule
from loadgen.plan.shape import Shape
from loadgen.replay.reach import Access
from loadgen.replay.secrets import parse_headers, read_key_file, redacted_command
from loadgen.replay.target import Timeouts
from loadgen.replay.template_file import read_template
from loadgen.replay.worker import Progress
from loadgen.simulate.cost_model import CostModel, cost_model_from
from loadgen.simulate.simulated_run import SimulatedRun, server_config, simulable_config
from loadgen.trace.parquet import read_trace, write_trace
from loadgen.trace.trace import Trace

WIDE = 240  # columns: more than any table of an experiment has
_TRACE_FILE = "trace.parquet"
# Of what was given, what an experiment's folder keeps and one that is gone on with takes up again.
KEPT = (
    "document", "where", "cost", "trace", "repeats", "only", "seed", "slo", "max_lateness", "ready_within",
    "find_capacity", "precision", "confirm",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What [send] may say, by the names and with the defaults of replay's options."""

    endpoint_type: str = "chat"
    template: Path | None = None
    model: str | None = None
    stream: bool | None = None
    ignore_eos: bool = False
    chars_per_token: int = CHARS_PER_TOKEN
    timeout: str = "10m"
    drain: str = "60s"
    workers: int = 1
    realtime: bool = False
    insecure: bool = False

    def __post_init__(self) -> None:
        for name, value in (("workers", self.workers), ("chars_per_token", self.chars_per_token)):
            if value < 1:
                raise UsageError(f"[send]: {name} is {value}", hint="give 1 or more")

    @property
    def timeouts(self) -> Timeouts:
        if self.timeout == "none":
            return Timeouts(total_s=None)
        return Timeouts(total_s=parse_duration_s(self.timeout, option="[send]: timeout"))

    def as_settings(self) -> dict[str, Any]:
        """As run.json keeps them."""
        return {**asdict(self), "template": None if self.template is None else str(self.template)}


class Bench:
    """An experiment ready to run: its matrix, its schedules, and how a cell is made.

    folder: of one that is gone on with; else it is made, once all that was given is known to be usable.
    trace: in place of what is named.
    """

    def __init__(
        self, given: Mapping[str, Any], folder: ExperimentFolder | None = None, trace: Trace | None = None
    ) -> None:
        self.seed: int = given["seed"]
        self.matrix = matrix = matrix_of(given)
        cost = given["cost"]
        self.cost: CostModel | None = None if cost is None else cost_model_from(cost["model"], where="cost")
        self.cost_from = "" if cost is None else str(cost["from"])
        self.send = SendOptions(**typed(matrix.send, SendOptions, f"{given['where']}: [send]"))
        self.ready_within_s = parse_duration_s(given["ready_within"], option="--ready-within")
        self.criteria = criteria_from(
            slo=[*matrix.slo, *given["slo"]], max_error_rate=None, max_lateness=given["max_lateness"]
        )
        # As run.json keeps it, for a later report of a run by itself.
        self.judged_by = {"slo": [*matrix.slo, *given["slo"]], "max_lateness": given["max_lateness"]}
        self.find_capacity = bool(given["find_capacity"])
        if self.find_capacity and not self.criteria.limits:
            raise UsageError("--find-capacity needs a limit", hint="--slo 'latency p99 < 800ms'")
        self.precision = given["precision"] / 100
        # A simulation gives the same each time: nothing is confirmed by another.
        self.confirm: int = given["confirm"] if self.cost is None else 1
        _check_targets(matrix, simulated=cost is not None)
        path = Path(given["trace"]) if given["trace"] is not None else matrix.trace
        kept = None if folder is None else folder.path / _TRACE_FILE
        if path is None and kept is not None and kept.is_file():
            path = kept
        if trace is not None:
            self.trace = trace
        else:
            self.trace = bursty_trace(seed=self.seed) if path is None else read_trace(path)
        self.prompts = PromptMaker(
            self.seed, self.send.chars_per_token, self.trace.metadata.prefix_block_tokens
        )
        self.sending = self._sending(given)
        self.schedules: Mapping[str, Schedule] = {load.name: self.schedule_of(load) for load in matrix.loads}
        hashes = {name: schedule.schedule_hash for name, schedule in self.schedules.items()}
        if folder is None:
            folder = ExperimentFolder.create(
                Path(given["out_dir"]),
                matrix.name,
                {name: given[name] for name in KEPT} | {"schedules": hashes},
            )
            if path is None:
                write_trace(self.trace, folder.path / _TRACE_FILE)
        elif folder.settings.get("schedules", hashes) != hashes:
            raise UsageError(
                f"{path}: the trace, or how loads are made of it, has changed since the first runs",
                hint="begin a new experiment",
            )
        self.folder = folder
        self.trace_name = _TRACE_FILE if path is None else path.name

    def _sending(self, given: Mapping[str, Any]) -> Sending:
        send = self.send
        key_file = given["api_key_file"]
        key = read_key_file(Path(key_file)) if key_file else given["api_key"]
        return Sending(
            prompts=self.prompts,
            endpoint_type=send.endpoint_type,
            template=None if send.template is None else read_template(send.template),
            model=send.model,
            access=Access(headers=parse_headers(given["header"] or (), key), verify_tls=not send.insecure),
            stream=send.stream,
            ignore_eos=send.ignore_eos,
            timeouts=send.timeouts,
            drain_s=parse_duration_s(send.drain, option="[send]: drain"),
            realtime=send.realtime,
            workers=send.workers,
            seed=self.seed,
        )

    def schedule_of(self, load: Load, **changed: Any) -> Schedule:
        """What a load sends, with these of its options changed. Raises LoadgenError naming it."""
        try:
            return plan(
                self.trace, shape_of_load({**load.options, **changed}, seed=self.seed, where=load.name)
            )
        except (UsageError, ScheduleError) as exc:
            raise type(exc)(_at_load(exc.message, load.name), hint=exc.hint) from exc

    @property
    def cells(self) -> list[Cell]:
        return self.matrix.cells(self.seed)

    def make(self, cell: Cell) -> MadeRun:
        """One run of a cell, reported."""
        return self._made(self.run_of(cell))

    def run_of(self, cell: Cell) -> CellRun:
        """The run of a cell, to be made."""
        target, load = self.matrix.target(cell.target), self.matrix.load(cell.load)
        return self._run(
            cell.name, target.with_flags(load.serve), self.schedules[cell.load], health=target.health
        )

    def run_at(
        self, name: str, target: AbTarget, schedule: Schedule, *, health: str | None = None
    ) -> MadeRun:
        """One run of `schedule` at a target, live or simulated, reported."""
        return self._made(self._run(name, target, schedule, health=health))

    def _made(self, run: CellRun) -> MadeRun:
        if isinstance(run.what, LiveRun) and sys.stderr.isatty():
            with LiveDisplay(run.what.sent.schedule) as display:
                return run.make(display.show)
        return run.make(_silent)

    def _run(self, name: str, target: AbTarget, schedule: Schedule, *, health: str | None) -> CellRun:
        options = self.send.as_settings() | self.judged_by
        out_dir, trace_rows = self.folder.path, self.trace.num_rows
        what: LiveRun | SimulatedRun
        if self.cost is not None:
            what = SimulatedRun(
                name=name,
                out_dir=out_dir,
                schedule=schedule,
                trace_name=self.trace_name,
                trace_rows=trace_rows,
                config=server_config(target.text),
                cost=self.cost,
                cost_from=self.cost_from,
                prompts=self.prompts,
                seed=self.seed,
                command=_command(),
                options=options,
            )
        else:
            sent = Sent(name, out_dir, schedule, self.trace_name, trace_rows, _command(), options)
            what = LiveRun(target, health, self.ready_within_s, self.sending, sent)
        return CellRun(what, self.criteria.thresholds, tuple(self.criteria.limits))


def shape_of_load(given: Mapping[str, Any], *, seed: int, where: str) -> Shape:
    """The Shape of options by their names. Raises UsageError naming `where`."""
    return options.shape_from(**{"seed": seed, **typed(given, options.shape_from, f"load {where}")})


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
    # A simulation gives the same each time.
    repeats = 1 if given["cost"] is not None else given["repeats"] or matrix.repeats
    return replace(matrix, targets=targets, repeats=repeats)


def _check_targets(matrix: Matrix, *, simulated: bool) -> None:
    """Refuse before anything runs what cannot: flags that the server does not know, programs that are not there."""
    of = simulable_config if simulated else server_config
    for one in matrix.targets:
        if one.serve is None:
            if (
                one.target.kind == "command"
                and shutil.which(program := shlex.split(one.target.text)[0]) is None
            ):
                raise UsageError(
                    f"target {one.name}: {program} is not there, or cannot be run", hint="give its whole path"
                )
            continue
        for load in matrix.loads:
            try:
                of(one.with_flags(load.serve).text)
            except UsageError as exc:
                at = f" at {load.name}" if load.serve else ""
                raise UsageError(
                    f"target {one.name}{at}: {exc.message}", hint="the flags of `loadgen serve`"
                ) from exc


def _at_load(message: str, name: str) -> str:
    return message if message.startswith(f"load {name}") else f"load {name}: {message}"


def _command() -> tuple[str, ...]:
    return tuple(redacted_command(["loadgen", *sys.argv[1:]]))


def _silent(_: Progress) -> None:
    """Where nobody watches, a line for each run is enough."""
