"""`loadgen simulate`: what a policy would do with a trace, in seconds and without a server."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from loadgen.atomic_file import write_text
from loadgen.cli import console
from loadgen.cli import shape_options as options
from loadgen.cli.plan import show_plan
from loadgen.cli.report import Goodput, MaxErrorRate, Slo, criteria_from, show_report
from loadgen.errors import UsageError
from loadgen.plan.planner import plan
from loadgen.plan.prompts import PromptMaker
from loadgen.plan.summary import summarise
from loadgen.simulate.cost_model import CostModel, cost_model_toml, read_cost_model
from loadgen.simulate.fitting import fit_cost_model
from loadgen.simulate.simulated_run import SimulatedRun, simulable_config, simulate_run
from loadgen.trace.parquet import read_trace

_SERVER, _COST, _KEEPING = "The server", "What a step costs", "Keeping and judging"


def _in(panel: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **settings)


FitFiles = Annotated[
    list[Path] | None,
    _in(
        _COST,
        "--fit",
        metavar="LOG",
        help="Fit it to this step log of `loadgen serve --step-log`, or request log; may be given again.",
    ),
]
CostFile = Annotated[
    Path | None,
    _in(_COST, "--cost-model", metavar="FILE", help="Take it from this TOML file (--write-cost-model)."),
]
WriteCost = Annotated[
    Path | None, _in(_COST, "--write-cost-model", metavar="FILE", help="Write what was fitted as TOML.")
]
CharsPerToken = Annotated[
    int,
    _in(_KEEPING, "--chars-per-token", min=1, help="As for replay; 1 is the bundled server's token."),
]


@options.takes_shape(before="seed")
def simulate(  # one local a option: the command line is wide, and flat is how it reads
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(help="A trace (Parquet, made by loadgen).", metavar="TRACE")],
    policy: Annotated[
        str | None, _in(_SERVER, "--policy", help="serial, fixed-window, dynamic or continuous.")
    ] = None,
    max_batch_size: Annotated[
        int | None, _in(_SERVER, "--max-batch-size", "--max-num-seqs", help="Rows of a batch.")
    ] = None,
    max_wait_ms: Annotated[float | None, _in(_SERVER, "--max-wait-ms", help="dynamic: longest wait.")] = None,
    window_ms: Annotated[float | None, _in(_SERVER, "--window-ms", help="fixed-window: ticks.")] = None,
    max_inflight_batches: Annotated[
        int | None, _in(_SERVER, "--max-inflight-batches", help="Batches stepped in turn, 1 to 4.")
    ] = None,
    max_queue_size: Annotated[
        int | None, _in(_SERVER, "--max-queue-size", help="High water: refuse above so many waiting.")
    ] = None,
    server_timeout: Annotated[
        str | None, _in(_SERVER, "--server-timeout", help="The server's --timeout: 3s, or none.")
    ] = None,
    serve: Annotated[
        str,
        _in(_SERVER, "--serve", metavar="FLAGS", help="Any flags of `loadgen serve`; those above go first."),
    ] = "",
    fit: FitFiles = None,
    cost_model: CostFile = None,
    write_cost_model: WriteCost = None,
    seed: options.Seed = 0,
    chars_per_token: CharsPerToken = 1,
    out_dir: Annotated[Path, _in(_KEEPING, "--out-dir", help="Where run folders go.")] = Path("reports"),
    name: Annotated[
        str | None, _in(_KEEPING, "--name", help="Begins the folder's name. Default: the trace's.")
    ] = None,
    slo: Slo = None,
    max_error_rate: MaxErrorRate = None,
    goodput: Goodput = None,
    as_json: Annotated[
        bool, _in(_KEEPING, "--json", help="Print the report as JSON on standard output.")
    ] = False,
    **shaping: Any,
) -> None:
    """Serve a trace by the bundled server's own policy code on a simulated clock, and report what came of it.

    The run folder is that of a live run and says that it is simulated: report and compare take it. What a step
    costs comes from a log of the real server (--fit), from a file (--cost-model), or is that of a small CPU model.
    """
    flags = [
        word
        for option, value in (
            ("--policy", policy),
            ("--max-batch-size", max_batch_size),
            ("--max-wait-ms", max_wait_ms),
            ("--window-ms", window_ms),
            ("--max-inflight-batches", max_inflight_batches),
            ("--max-queue-size", max_queue_size),
            ("--timeout", server_timeout),
        )
        if value is not None
        for word in (option, f"{value:g}" if isinstance(value, float) else str(value))
    ]
    config = simulable_config(f"{serve} {shlex.join(flags)}")
    criteria = criteria_from(slo=slo, max_error_rate=max_error_rate, max_lateness=None, goodput=goodput)
    cost, cost_from = cost_of(fit, cost_model)
    if write_cost_model is not None:
        write_cost(write_cost_model, cost, cost_from)
    read = read_trace(trace)
    schedule = plan(read, options.shape_from(seed=seed, **shaping))
    show_plan(console.err(), schedule, summarise(schedule), title=trace.name)
    kept = {key: str(value) if isinstance(value, Path) else value for key, value in context.params.items()}
    folder = simulate_run(
        SimulatedRun(
            name=name or f"{trace.stem}-simulated",
            out_dir=out_dir,
            schedule=schedule,
            trace_name=trace.name,
            trace_rows=read.num_rows,
            config=config,
            cost=cost,
            cost_from=cost_from,
            prompts=PromptMaker(seed, chars_per_token, read.metadata.prefix_block_tokens),
            seed=seed,
            command=("loadgen", *sys.argv[1:]),
            # Answers have the planned length, as a replay with --ignore-eos has them.
            options={**kept, "fit": [str(path) for path in fit or ()], "ignore_eos": True},
        )
    )
    code = show_report(folder, criteria, as_json=as_json)
    console.note(f"run kept in {folder.path}")
    raise typer.Exit(code)


def cost_of(fit: list[Path] | None, path: Path | None) -> tuple[CostModel, str]:
    """The cost model that the options name, and where it came from in words. Raises UsageError."""
    if fit and path is not None:
        raise UsageError("--fit and --cost-model exclude each other", hint="give one of them")
    if fit:
        found = fit_cost_model(fit)
        console.note(f"fitted to {found.words}")
        return found.model, f"the fit to {', '.join(one.name for one in fit)}"
    if path is not None:
        return read_cost_model(path), path.name
    console.note(
        "note: steps cost what a small model takes on one CPU core; --fit a step log of your own server for "
        "figures to rely on"
    )
    return CostModel(), "the built-in cost model"


def write_cost(path: Path, cost: CostModel, cost_from: str) -> None:
    """Write the model as TOML. Raises UsageError where it cannot be written."""
    try:
        write_text(path, cost_model_toml(cost, f"What a step costs: {cost_from}."))
    except OSError as exc:
        raise UsageError(f"--write-cost-model {path}: cannot be written ({exc.strerror})") from exc
    console.note(f"written: {path}")
