"""`loadgen experiment`: one trace at many set-ups, in one table and one page; or where a set-up stops holding."""

from __future__ import annotations

import signal
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from loadgen.atomic_file import write_text
from loadgen.cli import console
from loadgen.cli import shape_options as options
from loadgen.cli.live import LiveDisplay
from loadgen.cli.plan import plan as plan_verb
from loadgen.cli.report import MaxLateness, Slo, criteria_from
from loadgen.cli.simulate import CostFile, FitFiles, cost_of
from loadgen.compare.ab_target import started
from loadgen.durations import format_duration, parse_duration_s
from loadgen.errors import ExitCode, UsageError
from loadgen.experiment import words
from loadgen.experiment.bursty_trace import bursty_trace
from loadgen.experiment.experiment import MadeRun, missing, results_of, run_missing
from loadgen.experiment.experiment_folder import ExperimentFolder
from loadgen.experiment.matrix import Cell, Matrix, matrix_from
from loadgen.experiment.page import as_page
from loadgen.experiment.result import Row, rows_of
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

_WHAT, _SENDING, _KEEPING = "What to run", "Sending", "Keeping and judging"
READY = ("policies", "concurrency", "arrivals", "production")
_TRACE_FILE = "trace.parquet"
WIDE = 240  # columns: more than any table of an experiment has
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


def _in(panel: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **settings)


def experiment(  # one local a option: the command line is wide, and flat is how it reads
    source: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help=f"An experiment (TOML), or a ready one: {', '.join(READY)}."),
    ] = None,
    policies: Annotated[
        str | None,
        _in(_WHAT, "--policies", metavar="all", help="The same as the ready experiment `policies`."),
    ] = None,
    trace: Annotated[
        Path | None,
        _in(_WHAT, "--trace", help="In place of the experiment's own; without any, bursts of short chats."),
    ] = None,
    repeats: Annotated[int | None, _in(_WHAT, "--repeats", min=1, help="Runs of each cell.")] = None,
    only: Annotated[
        list[str] | None,
        _in(_WHAT, "--only", metavar="TARGET", help="These targets only; may be given again."),
    ] = None,
    simulated: Annotated[
        bool, _in(_WHAT, "--simulate", help="Simulate every run (bundled server only); sends nothing.")
    ] = False,
    fit: FitFiles = None,
    cost_model: CostFile = None,
    find_capacity: Annotated[
        bool,
        _in(
            _WHAT, "--find-capacity", help="Find the highest speed-up of each load at which the limits hold."
        ),
    ] = False,
    precision: Annotated[
        float, _in(_WHAT, "--precision", min=0.1, help="Percent to which --find-capacity goes.")
    ] = 5.0,
    confirm: Annotated[
        int, _in(_WHAT, "--confirm", min=1, help="Runs of --find-capacity at what holds and at what breaks.")
    ] = 3,
    show: Annotated[
        bool, _in(_WHAT, "--show", help="Print the experiment's TOML, to be changed; run nothing.")
    ] = False,
    ready_within: Annotated[
        str, _in(_SENDING, "--ready-within", metavar="TIME", help="A command's server must be up by then.")
    ] = "10m",
    api_key: Annotated[
        str | None, _in(_SENDING, "--api-key", envvar="LOADGEN_API_KEY", help="Bearer token.")
    ] = None,
    api_key_file: Annotated[
        Path | None, _in(_SENDING, "--api-key-file", help="File that holds the bearer token.")
    ] = None,
    header: Annotated[
        list[str] | None, _in(_SENDING, "--header", "-H", help="Further header, 'Name: value'.")
    ] = None,
    seed: options.Seed = 0,
    slo: Slo = None,
    max_lateness: MaxLateness = None,
    out_dir: Annotated[Path, _in(_KEEPING, "--out-dir", help="Where the experiment's folder goes.")] = Path(
        "reports"
    ),
    resume: Annotated[
        Path | None,
        _in(_KEEPING, "--resume", metavar="FOLDER", help="Make the runs that a stopped experiment lacks."),
    ] = None,
    markdown: Annotated[
        Path | None, _in(_KEEPING, "--markdown", metavar="FILE", help="The table as Markdown.")
    ] = None,
    html: Annotated[bool, _in(_KEEPING, "--html/--no-html", help="Write page.html into the folder.")] = True,
    as_json: Annotated[
        bool, _in(_KEEPING, "--json", help="Print the figures as JSON on standard output.")
    ] = False,
) -> None:
    """Run one trace at every set-up of a file, in turn, and put the figures side by side.

    A target that is a URL stays up; the bundled server and commands are started for each run. Ctrl-C keeps what was
    made, and --resume makes only what is missing. Exit code 1: a limit of --slo is broken; 4: a run is invalid.
    """
    given = dict(locals())
    if resume is not None:
        if source is not None or policies is not None:
            raise UsageError("--resume takes no FILE", hint=f"loadgen experiment --resume {resume}")
        folder = ExperimentFolder.open(resume)
        given |= folder.settings
        bench = Bench(given, folder)
    else:
        if policies not in (None, "all"):
            raise UsageError(f"--policies is {policies!r}", hint="give all, or a file")
        if (source is None) == (policies is None):
            raise UsageError(
                "give an experiment: a TOML file, a ready one, or --policies all",
                hint=f"loadgen experiment policies; ready: {', '.join(READY)}",
            )
        text, where = read_source(source or "policies")
        if show:
            sys.stdout.write(text)
            raise typer.Exit()
        document = _toml(text, where)
        cost = None
        if simulated:
            model, cost_from = cost_of(fit, cost_model)
            cost = {"model": model.as_dict(), "from": cost_from}
        given |= {
            "document": document,
            "where": where,
            "cost": cost,
            "trace": None if trace is None else str(trace.resolve()),
            "only": list(only or ()),
            "slo": list(slo or ()),
        }
        matrix = _check(given)
        if find_capacity and not (matrix.slo or given["slo"]):
            raise UsageError("--find-capacity needs a limit", hint="--slo 'latency p99 < 800ms'")
        folder = ExperimentFolder.create(
            out_dir, str(document.get("name", "experiment")), {name: given[name] for name in _KEPT}
        )
        bench = Bench(given, folder)
    if find_capacity:
        from loadgen.cli import capacity  # noqa: PLC0415  # it builds on this module

        raise typer.Exit(
            capacity.find_capacity(bench, precision=precision / 100, confirm=confirm, as_json=as_json)
        )
    raise typer.Exit(_run(bench, markdown, html=html, as_json=as_json))


# Of what was given, what a resumed experiment takes up again.
_KEPT = (
    "document",
    "where",
    "cost",
    "trace",
    "repeats",
    "only",
    "seed",
    "slo",
    "max_lateness",
    "ready_within",
)


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
        self.matrix = _check(given)
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


def _run(bench: Bench, markdown: Path | None, *, html: bool, as_json: bool) -> int:
    folder, cells = bench.folder, bench.cells
    left = missing(folder, cells)
    if not bench.cost:
        planned_s = sum(bench.schedules[cell.load].end_ns / 1e9 for cell in left)
        console.note(
            f"{len(left)} of {len(cells)} runs to make, {format_duration(planned_s)} of load and a start and a "
            f"drain for each; kept in {folder.path}"
        )

    def tell(cell: Cell, path: Path, left: int) -> None:
        console.note(f"{cell.load} | {cell.target} | {cell.repeat + 1}: {path.name}; {left} left")

    code: int | None = None
    try:
        signal_name = run_missing(folder, cells, bench.make, tell)
    except KeyboardInterrupt:
        signal_name, code = "SIGINT", int(ExitCode.INTERRUPTED)
    shown = _show(bench, markdown, html=html, as_json=as_json)
    if signal_name is not None:
        console.note(f"stopped; go on with: loadgen experiment --resume {folder.path}")
        return code or 128 + signal.Signals[signal_name]
    return shown


def _show(bench: Bench, markdown: Path | None, *, html: bool, as_json: bool) -> int:
    matrix, folder = bench.matrix, bench.folder
    results = results_of(folder, bench.cells)
    loads, targets = [one.name for one in matrix.loads], [one.name for one in matrix.targets]
    rows = rows_of(results, loads, targets)
    if not rows:
        return int(ExitCode.OK)
    document = {
        "name": matrix.name,
        "folder": str(folder.path),
        "simulated": bench.cost is not None,
        "rows": [row.as_json() for row in rows],
        "notes": words.notes(rows),
    }
    if as_json:
        console.print_json(document)
    else:
        print_rows(rows)
        for note in words.notes(rows):
            console.out().print(Text(note))
    if markdown is not None:
        write_text(markdown, words.markdown(matrix.name, rows, loads))
        console.note(f"written: {markdown}")
    if html:
        path = folder.path / "page.html"
        write_text(path, as_page(matrix.name, matrix.about, rows, loads, results))
        console.note(f"written: {path}")
    if any(row.invalid for row in rows):
        return int(ExitCode.RUN_INVALID)
    broken = any(row.kept is not None and row.kept < row.runs for row in rows)
    return int(ExitCode.LIMIT_BROKEN if broken else ExitCode.OK)


def print_rows(rows: Sequence[Row]) -> None:
    """A table for each load; wide ones are not squeezed."""
    found = words.table(rows)
    for load in dict.fromkeys(row[0] for row in found.rows):
        shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        for place, head in enumerate((load, *found.heads[2:])):
            shown.add_column(head, justify="left" if place == 0 else "right", no_wrap=True)
        for row in found.rows:
            if row[0] == load:
                shown.add_row(*map(Text, row[1:]))
        out = console.out()
        out.width = WIDE
        out.print(shown)


def read_source(source: str) -> tuple[str, str]:
    """The text of an experiment and where it is: a file, or one that comes with loadgen."""
    if source in READY:
        name = f"ready/{source}.toml"
        return resources.files("loadgen.experiment").joinpath(name).read_text(encoding="utf-8"), source
    path = Path(source)
    try:
        return path.read_text(encoding="utf-8"), str(path.resolve())
    except (OSError, UnicodeDecodeError) as exc:
        raise UsageError(
            f"{source}: cannot be read as an experiment ({exc})", hint=f"ready ones: {', '.join(READY)}"
        ) from exc


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


def _check(given: Mapping[str, Any]) -> Matrix:
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


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{where}: cannot be read as an experiment ({exc})") from exc


def _command() -> tuple[str, ...]:
    return tuple(redacted_command(["loadgen", *sys.argv[1:]]))


def _silent(_: Progress) -> None:
    """Where nobody watches, a line for each run is enough."""
