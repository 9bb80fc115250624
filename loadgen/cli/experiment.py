"""`loadgen experiment`: one trace at many set-ups, in one table and one page; or where a set-up stops holding."""

from __future__ import annotations

import signal
import sys
import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from loadgen.atomic_file import write_text
from loadgen.cli import console
from loadgen.cli.bench import WIDE, Bench, matrix_of
from loadgen.cli.capacity import search_capacity
from loadgen.cli.report import MaxLateness, Slo
from loadgen.cli.shape_options import Seed
from loadgen.cli.simulate import CostFile, FitFiles, cost_of
from loadgen.durations import format_duration
from loadgen.errors import ExitCode, UsageError
from loadgen.experiment import words
from loadgen.experiment.experiment import missing, results_of, run_missing
from loadgen.experiment.experiment_folder import ExperimentFolder
from loadgen.experiment.matrix import Cell
from loadgen.experiment.page import as_page
from loadgen.experiment.result import Row, rows_of

_WHAT, _SENDING, _KEEPING = "What to run", "Sending", "Keeping and judging"
READY = ("policies", "concurrency", "arrivals", "production")


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
    seed: Seed = 0,
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
        matrix = matrix_of(given)
        if find_capacity and not (matrix.slo or given["slo"]):
            raise UsageError("--find-capacity needs a limit", hint="--slo 'latency p99 < 800ms'")
        folder = ExperimentFolder.create(
            out_dir, str(document.get("name", "experiment")), {name: given[name] for name in _KEPT}
        )
        bench = Bench(given, folder)
    if find_capacity:
        raise typer.Exit(search_capacity(bench, precision=precision / 100, confirm=confirm, as_json=as_json))
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


def _toml(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise UsageError(f"{where}: cannot be read as an experiment ({exc})") from exc
