"""`loadgen compare`: whether one version is worse than another, from runs that exist."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from loadgen.cli import console
from loadgen.compare.compared_run import in_time, load_run, noise_on_record
from loadgen.compare.comparing import compare_runs
from loadgen.compare.comparison import Comparison, Terms
from loadgen.compare.gate import Gate, parse_gate, read_gates
from loadgen.compare.history import history, read_history
from loadgen.compare.history_terminal import render_history
from loadgen.compare.judgement import Plan
from loadgen.compare.outputs import write_outputs
from loadgen.compare.terminal import render
from loadgen.errors import UsageError
from loadgen.report.goodput import parse_goodput
from loadgen.report.html import require_library

_JUDGING, _OUTPUT = "How it is judged", "Output"


def _in(panel: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **settings)


class ManyRunsCommand(TyperCommand):
    """`--to RUN RUN ..`: an option of the parser takes one value, so each further run gets a --to of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spread_to(args))


def spread_to(args: Sequence[str]) -> list[str]:
    """The arguments with `--to a b` as `--to a --to b`, until the next option."""
    spread: list[str] = []
    is_after_to = False
    for place, argument in enumerate(args):
        if argument.startswith("-"):
            is_after_to = argument == "--to"
        elif is_after_to and args[place - 1] != "--to":
            spread.append("--to")
        spread.append(argument)
    return spread


FailOn = Annotated[
    list[str] | None,
    _in(
        _JUDGING,
        "--fail-on",
        metavar="GATE",
        help="Exit 1 on this change only: 'ttft p99 > +5%', 'goodput < -1%', 'latency p99 @peak-1 > +10%'.",
    ),
]
GateFile = Annotated[
    Path | None,
    _in(_JUDGING, "--gates", metavar="TOML", help="Gates from a file: fail_on = ['ttft p99 > +5%', ..]."),
]
Margin = Annotated[
    str,
    _in(_JUDGING, "--margin", metavar="PERCENT", help="A change within it is the same. Of shares: 1 point."),
]
Alpha = Annotated[
    str,
    _in(
        _JUDGING,
        "--alpha",
        metavar="PERCENT",
        help="False alarms allowed, over all figures, windows and looks.",
    ),
]
GoodputBounds = Annotated[
    list[str] | None,
    _in(
        _JUDGING,
        "--goodput",
        metavar="BOUNDS",
        help="What a good request is, such as 'ttft:800ms latency:3s'.",
    ),
]
Markdown = Annotated[
    Path | None, _in(_OUTPUT, "--markdown", metavar="FILE", help="Write it as Markdown too.")
]
Junit = Annotated[Path | None, _in(_OUTPUT, "--junit", metavar="FILE", help="Write it as JUnit XML too.")]
Html = Annotated[
    Path | None,
    _in(_OUTPUT, "--html", metavar="FILE", help="Write it as one page with charts too; it works offline."),
]
AsJson = Annotated[bool, _in(_OUTPUT, "--json", help="Print it as JSON on standard output.")]


def compare(
    base: Annotated[
        list[Path] | None, typer.Argument(help="Run folders of the version that is known.", metavar="BASE...")
    ] = None,
    to: Annotated[
        list[Path] | None,
        typer.Option("--to", metavar="CAND", help="Run folders of the version in question; all that follow."),
    ] = None,
    noise: Annotated[
        list[Path] | None,
        _in(
            _JUDGING,
            "--noise",
            metavar="RUN",
            help="Runs of one version: their spread is the noise. Default of one run a side: what is beside it.",
        ),
    ] = None,
    fail_on: FailOn = None,
    gates: GateFile = None,
    margin: Margin = "5%",
    alpha: Alpha = "5%",
    goodput: GoodputBounds = None,
    override: Annotated[
        list[str] | None,
        _in(
            _JUDGING,
            "--override",
            metavar="FIELD",
            help="Compare though this differs: a field by its name, validity, or order. Again for more.",
        ),
    ] = None,
    history_of: Annotated[
        Path | None,
        typer.Option(
            "--history",
            metavar="FOLDER",
            help="Instead: each figure over the versions in it, with change points.",
        ),
    ] = None,
    markdown: Markdown = None,
    junit: Junit = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Tell whether a version is worse, from runs of one schedule: better, worse, same, or not to be told.

    Runs of both sides are paired in order of time. One run a side is never enough to call a version worse, unless
    the noise of this target is on record; `loadgen ab` makes the runs that are. Exit code 1: worse, or a gate is
    broken; 3: inconclusive; 2: not comparable; 4: a run is invalid.
    """
    if html is not None:
        require_library()
    if history_of is not None:
        if html or markdown or junit:
            raise UsageError("--history has no such form", hint="--json gives all of it")
        if base or to:
            raise UsageError("--history takes a folder, no runs", hint="loadgen compare --history reports/")
        found = history(read_history(history_of))
        if as_json:
            console.print_json(found.as_json())
        else:
            render_history(found, console.out())
        return
    if not base or not to:
        raise UsageError("give runs of both sides", hint="loadgen compare BASE... --to CAND...")
    terms = terms_from(
        margin=margin, alpha=alpha, goodput=goodput, fail_on=fail_on, gates=gates, override=override or ()
    )
    ours, theirs = ([load_run(path) for path in side] for side in (base, to))
    paths = [run.folder.path.resolve() for run in (*ours, *theirs)]
    if len(set(paths)) < len(paths):
        raise UsageError("a run is given twice", hint="each run counts once")
    spread = [load_run(path) for path in noise or ()]
    if len(spread) == 1:
        raise UsageError("--noise is given one run", hint="give two or more of one version")
    if not noise and len(ours) == len(theirs) == 1:
        spread = noise_on_record(in_time(ours)[0], [*ours, *theirs])
        if len(spread) > 1:
            console.note(
                f"noise from {len(spread)} runs of the base's version in {ours[0].folder.path.parent}"
            )
    comparison = compare_runs(ours, theirs, terms, spread)
    raise typer.Exit(show(comparison, markdown=markdown, junit=junit, html=html, as_json=as_json))


def show(
    comparison: Comparison, *, markdown: Path | None, junit: Path | None, html: Path | None, as_json: bool
) -> int:
    """Print and write `comparison`; returns what the verb's exit status should be."""
    write_outputs(comparison, markdown=markdown, junit=junit, page=html)
    for path in (markdown, junit, html):
        if path is not None:
            console.note(f"written: {path}")
    if as_json:
        console.print_json(comparison.as_json())
    else:
        render(comparison, console.out())
    return int(comparison.exit_code)


def terms_from(
    *,
    margin: str,
    alpha: str,
    goodput: Sequence[str] | None,
    fail_on: Sequence[str] | None,
    gates: Path | None,
    override: Sequence[str] = (),
    max_looks: int = 1,
) -> Terms:
    """The Terms of these options. Raises UsageError naming the one that cannot be read."""
    wanted: list[Gate] = [parse_gate(text) for text in fail_on or ()]
    if gates is not None:
        wanted += read_gates(gates)
    allowed = _percent(alpha, "--alpha")
    if not 0 < allowed < 0.5:
        raise UsageError(f"--alpha is {alpha}", hint="give more than 0% and less than 50%")
    return Terms(
        margin=_percent(margin, "--margin"),
        bounds=parse_goodput(goodput or ()),
        gates=tuple(wanted),
        overridden=frozenset(override),
        plan=Plan(allowed, max_looks),
    )


def _percent(text: str, option: str) -> float:
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not (text.strip().endswith("%") and 0 <= share <= 10):
        raise UsageError(f"{option} is {text!r}, which is no percentage", hint=f"write {option} 5%")
    return share
