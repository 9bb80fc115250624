"""`loadgen experiment`: one trace at many set-ups, in one table and one page; or where a set-up stops holding."""

from __future__ import annotations

import signal
import sys
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from loadgen.atomic_file import write_text
from loadgen.cli import console
from loadgen.cli.bench import KEPT, WIDE, Bench
from loadgen.cli.capacity import search_capacity
from loadgen.cli.experiment_on_ray import run_on_ray
from loadgen.cli.report import MaxLateness, Slo
from loadgen.cli.shape_options import Seed
from loadgen.cli.simulate import CostFile, FitFiles, cost_of
from loadgen.durations import format_duration
from loadgen.errors import ExitCode, LoadgenError, UsageError
from loadgen.experiment import words
from loadgen.experiment.experiment import Ended, missing, results_of, run_missing
from loadgen.experiment.experiment_folder import ExperimentFolder
from loadgen.experiment.matrix import Cell
from loadgen.experiment.page import as_page
from loadgen.experiment.result import Row, rows_of

_WHAT, _SENDING, _KEEPING = "What to run", "Sending", "Keeping and judging"
READY = ("policies", "concurrency", "arrivals", "production")


def _in(panel: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **settings)


def experiment(  # one local a option: the command line is wide, and flat is how it reads
    context: typer.Context,
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
    ray: Annotated[
        str | None,
        _in(
            _SENDING,
            "--ray",
            metavar="ADDRESS",
            help="Make runs side by side on a Ray cluster: HOST:PORT, auto (the one around), local (begun here).",
        ),
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
    given = dict(context.params)
    if show and resume is None:
        sys.stdout.write(read_source(_source(source, policies))[0])
        raise typer.Exit()
    if resume is not None:
        if source is not None or policies is not None:
            raise UsageError("--resume takes no FILE", hint=f"loadgen experiment --resume {resume}")
        folder = ExperimentFolder.open(resume)
        bench = Bench(_as_it_was(context, folder.settings), folder)
    else:
        bench = Bench(given | _asked(given))
    if bench.find_capacity:
        if ray is not None:
            raise UsageError("--find-capacity makes one run after another", hint="leave --ray out")
        raise typer.Exit(search_capacity(bench, as_json=as_json))
    raise typer.Exit(_run(bench, ray, markdown, html=html, as_json=as_json))


# Of an experiment that is gone on with, these may be given anew; the others of KEPT are as they were.
_ANEW = ("ready_within", "precision", "confirm")


def _source(source: str | None, policies: str | None) -> str:
    if policies not in (None, "all"):
        raise UsageError(f"--policies is {policies!r}", hint="give all, or a file")
    if (source is None) == (policies is None):
        raise UsageError(
            "give an experiment: a TOML file, a ready one, or --policies all",
            hint=f"loadgen experiment policies; ready: {', '.join(READY)}",
        )
    return source or "policies"


def _asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """What a new experiment's options amount to, as its folder keeps it."""
    text, where = read_source(_source(given["source"], given["policies"]))
    document = _toml(text, where)
    cost = None
    if given["simulated"]:
        model, cost_from = cost_of(given["fit"], given["cost_model"])
        cost = {"model": model.as_dict(), "from": cost_from}
    elif given["fit"] or given["cost_model"]:
        option = "--fit" if given["fit"] else "--cost-model"
        raise UsageError(f"{option} is of a simulation, and this one is live", hint="add --simulate")
    return {
        "document": document,
        "where": where,
        "cost": cost,
        "trace": None if given["trace"] is None else str(given["trace"].resolve()),
        "only": list(given["only"] or ()),
        "slo": list(given["slo"] or ()),
    }


def _as_it_was(context: typer.Context, kept: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an experiment that is gone on with. Raises UsageError for one that would change what it is."""
    given = dict(context.params)
    said = {name for name in given if _is_said(context, name)}
    fixed = {*KEPT, "simulated", "fit", "cost_model"} - {*_ANEW, "find_capacity"}
    if changed := sorted(said & fixed):
        option = "simulate" if changed[0] == "simulated" else changed[0].replace("_", "-")
        raise UsageError(
            f"--{option} cannot be changed by --resume", hint="leave it out, or begin a new experiment"
        )
    if "find_capacity" in said and not kept.get("find_capacity"):
        raise UsageError("--find-capacity: this experiment makes other runs", hint="begin a new one")
    where = Path(str(kept["where"]))
    if (
        where.suffix == ".toml"
        and where.is_file()
        and _toml(read_source(str(where))[0], str(where)) != kept["document"]
    ):
        console.note(f"note: {where} has changed since; this experiment goes on as it was")
    return given | {name: value for name, value in kept.items() if name not in _ANEW or name not in said}


def _is_said(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _run(bench: Bench, ray: str | None, markdown: Path | None, *, html: bool, as_json: bool) -> int:
    folder, cells = bench.folder, bench.cells
    left = missing(folder, cells)
    if bench.cost is None and left:
        planned_s = sum(bench.schedules[cell.load].end_ns / 1e9 for cell in left)
        console.note(
            f"{len(left)} of {len(cells)} runs to make, {format_duration(planned_s)} of load and a start and a "
            f"drain for each; kept in {folder.path}"
        )

    def tell(cell: Cell, path: Path, left: int) -> None:
        console.note(f"{cell.load} | {cell.target} | {cell.repeat + 1}: {path.name}; {left} left")

    try:
        if ray is None:
            ended = run_missing(folder, cells, bench.make, tell, _tell_failed)
        else:
            ended = run_on_ray(bench, ray, left, tell, _tell_failed)
    except KeyboardInterrupt:
        ended = Ended("SIGINT")
    shown = _show(bench, markdown, html=html, as_json=as_json)
    if ended.signal_name is None and not ended.failed:
        return shown
    console.note(
        f"{_what_lacks(ended, len(missing(folder, cells)))}; go on with: loadgen experiment --resume {folder.path}"
    )
    if ended.signal_name is not None:
        return 128 + signal.Signals[ended.signal_name]
    return int(ExitCode.RUN_FAILED)


def _tell_failed(cell: Cell, error: LoadgenError) -> None:
    console.note(f"{cell.load} | {cell.target} | {cell.repeat + 1}: failed")
    console.print_error(error)


def _what_lacks(ended: Ended, count: int) -> str:
    runs = "1 run lacks" if count == 1 else f"{count} runs lack"
    if ended.signal_name is not None:
        return f"stopped; {runs}"
    return f"{runs}, of {', '.join(ended.failed)}, whose runs were left out after one that failed"


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
        try:
            write_text(path, as_page(matrix.name, matrix.about, rows, loads, results))
            console.note(f"written: {path}")
        except UsageError as exc:
            # The table stands; a page can be had by --resume.
            console.note(f"no page is written: {exc.message}; {exc.hint}")
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
