"""`loadgen advise`: which settings keep a budget of latency on this trace, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from loadgen.advise.advice import Advice
from loadgen.advise.arithmetic import Little, little, rates_of
from loadgen.advise.question import Question, busiest_part, question_of_run
from loadgen.advise.search import Bench as Simulations
from loadgen.advise.search import Budget, Outlook, alone_s, certainty, choose, search
from loadgen.advise.setting import Setting, candidates, elsewhere
from loadgen.advise.terminal import render
from loadgen.cli import console
from loadgen.cli import shape_options as options
from loadgen.cli.advice_check import check, judged_percentile
from loadgen.cli.bench import shape_of_load
from loadgen.cli.experiment import print_rows
from loadgen.cli.plan import show_plan
from loadgen.cli.progress import CountNote
from loadgen.cli.simulate import CharsPerToken, CostFile, FitFiles, cost_of
from loadgen.durations import format_duration, parse_duration_s
from loadgen.errors import ExitCode, ScheduleError, UsageError
from loadgen.plan.prompts import PromptMaker
from loadgen.plan.schedule import Schedule
from loadgen.plan.summary import summarise
from loadgen.replay.run_folder import RunFolder
from loadgen.simulate.cost_model import CostModel
from loadgen.simulate.simulated_run import server_config, simulable_config
from loadgen.trace.parquet import read_trace

_BUDGET, _SERVER, _VERIFY = "What must hold", "The server", "Check by replay"
# A longer trace says no more of which setting is best, and is searched for minutes.
_MOST_REQUESTS = 10_000
_CUTS = ("start", "duration", "end", "busiest", "num_requests", "repeat", "rate_series", "ramp")
_POLICIES = ("serial", "fixed-window", "dynamic", "continuous")


def _in(panel: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **settings)


@options.takes_shape(before="inject_peak")
def advise(  # one local a option: the command line is wide, and flat is how it reads
    context: typer.Context,
    source: Annotated[
        Path, typer.Argument(help="A trace, or the folder of a run of it.", metavar="TRACE|RUN")
    ],
    latency_budget: Annotated[
        str, _in(_BUDGET, "--latency-budget", metavar="TIME", help="From planned send to last token: 800ms.")
    ],
    percentile: Annotated[
        float, _in(_BUDGET, "--percentile", min=1, max=100, help="Of all answers, so many percent keep it.")
    ] = 99.0,
    error_rate: Annotated[
        float, _in(_BUDGET, "--error-rate", min=0, max=100, help="Percent that may fail or be refused.")
    ] = 1.0,
    policy: Annotated[
        list[str] | None,
        _in(_SERVER, "--policy", help=f"Try these only; may be given again: {', '.join(_POLICIES)}."),
    ] = None,
    max_batch: Annotated[
        int | None,
        _in(
            _SERVER,
            "--max-batch",
            min=1,
            help="Largest batch to try. Default: twice the rows that the cost model knows.",
        ),
    ] = None,
    present: Annotated[
        str | None,
        _in(
            _SERVER, "--present", metavar="FLAGS", help="The setting in use. Default: a run's own; else none."
        ),
    ] = None,
    serve: Annotated[
        str,
        _in(
            _SERVER, "--serve", metavar="FLAGS", help="Flags that every setting shares: --preset, --timeout."
        ),
    ] = "",
    fit: FitFiles = None,
    cost_model: CostFile = None,
    inject_peak: Annotated[
        bool, typer.Option("--inject-peak/--no-inject-peak", help="Doubled peak: what holds there goes live.")
    ] = True,
    seed: options.Seed = 0,
    chars_per_token: CharsPerToken = 1,
    draws: Annotated[
        int, _in(_BUDGET, "--draws", min=1, max=200, help="Traces drawn alike, for how sure it is.")
    ] = 20,
    verify: Annotated[
        bool, _in(_VERIFY, "--verify", help="Replay the advised setting and the present one, in turn.")
    ] = False,
    verify_runs: Annotated[int, _in(_VERIFY, "--verify-runs", min=1, help="Runs of each.")] = 3,
    alternatives: Annotated[
        int, _in(_VERIFY, "--alternatives", min=0, help="Replay so many of the next best settings, too.")
    ] = 0,
    max_lateness: Annotated[
        str | None, _in(_VERIFY, "--max-lateness", metavar="TIME", help="As for replay.")
    ] = None,
    out_dir: Annotated[Path, _in(_VERIFY, "--out-dir", help="Where the check's folder goes.")] = Path(
        "reports"
    ),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON on standard output.")
    ] = False,
    **shaping: Any,
) -> None:
    """Find the policy, batch size, wait, batches in flight and high water that keep a budget of latency.

    First the arithmetic (rates, how long a batch takes to fill, Little's law), then a search by simulation on the
    trace with a doubled peak, then how sure the result is; --verify replays it at the bundled server.
    Exit code 1: no setting holds, or the replay shows that the advised one does not.
    """
    budget = Budget(parse_duration_s(latency_budget, option="--latency-budget"), percentile, error_rate / 100)
    if not budget.latency_s > 0:
        raise UsageError(f"--latency-budget is {latency_budget}", hint="give a time above 0")
    policies = tuple(policy or _POLICIES)
    if unknown := [name for name in policies if name not in _POLICIES]:
        raise UsageError(f"--policy is {unknown[0]!r}", hint=f"one of: {', '.join(_POLICIES)}")
    if verify:
        judged_percentile(budget)
    given = {**shaping, "inject_peak": inject_peak, "seed": seed}
    question, schedule = _question(source, given, present, is_peak_asked=_is_peak_asked(context))
    serve = serve or question.shared
    _check_flags(serve, "--serve")
    is_known = question.present is not None and _is_simulable(f"{serve} {question.present}", given=present)
    cost, cost_from = cost_of(fit, cost_model)
    prompts = PromptMaker(seed, chars_per_token, question.trace.metadata.prefix_block_tokens)
    show_plan(console.err(), schedule, summarise(schedule), title=source.name)
    simulations = Simulations(schedule, cost, prompts, serve, CountNote("simulations made").advance)
    largest = max_batch or 2 * cost.decode_us[-1][0]
    longest = int(prompts.lengths(schedule.table).max())
    tried = candidates(budget.latency_s, max_batch=largest, policies=policies, longest_prompt=longest)
    settings = "1 setting" if len(tried) == 1 else f"{len(tried)} settings"
    console.note(f"simulating {settings}, then the high water of the best")
    drawn = [question.drawn(number) for number in range(draws)]
    outlooks, as_good = choose(simulations, search(simulations, tried, budget), budget, drawn)
    best = outlooks[0]
    advice = Advice(
        budget=budget,
        rates=rates_of(schedule.planned_ns, schedule.end_ns),
        law=_law(schedule, best, budget),
        outlooks=outlooks,
        as_good=as_good,
        certainty=certainty(simulations, best.setting, budget, drawn),
        present=simulations.outlook_of(best.setting, f"{serve} {question.present}", budget)
        if is_known
        else None,
        present_flags=question.present,
        elsewhere=elsewhere(
            _first(outlooks, ("dynamic",)),
            _first(outlooks, ("continuous",)),
            server_config(serve).timeout_s,
        ),
        cost_from=cost_from,
        serve=serve,
        alone_s=alone_s(schedule, cost, prompts, percentile),
        notes=_notes(best.setting, budget, schedule, cost, serve),
    )
    if not as_json:
        render(advice, console.out())
    checked = check(advice, question, context.params) if verify else None
    if as_json:
        rows = None if checked is None else [row.as_json() for row in checked.rows]
        console.print_json(advice.as_json() | {"verified": rows})
    elif checked is not None and checked.rows:
        console.out().print(Text("\nreplayed"))
        print_rows(checked.rows)
    if checked is not None:
        raise typer.Exit(checked.exit_code)
    raise typer.Exit(int(ExitCode.OK if advice.best.holds(budget) else ExitCode.LIMIT_BROKEN))


def _question(
    source: Path, given: dict[str, Any], present: str | None, *, is_peak_asked: bool
) -> tuple[Question, Schedule]:
    """Of a trace, shaped by the options; of a run, as it was sent. With what is sent.

    A peak that nobody asked for is left out where the trace is too short for it.
    """
    if source.is_dir():
        found = question_of_run(RunFolder.open(source), shape_of_load({}, seed=given["seed"], where="run"))
        found = found if present is None else replace(found, present=present)
        return found, found.schedule
    trace = read_trace(source)
    if trace.num_rows > _MOST_REQUESTS and not any(given[name] for name in _CUTS):
        whole, trace = trace.num_rows, busiest_part(trace, _MOST_REQUESTS // 2)
        console.note(
            f"note: {whole:,} requests are more than it takes: settings are tried on the busiest stretch, "
            f"{trace.num_rows:,} requests; --busiest TIME chooses another"
        )
    question = Question(trace, options.shape_from(**given), _asked(given), present)
    try:
        return question, question.schedule
    except ScheduleError as exc:
        if is_peak_asked or not given["inject_peak"]:
            raise
        given = {**given, "inject_peak": False}
        question = Question(trace, options.shape_from(**given), _asked(given), present)
        schedule = question.schedule
        console.note(f"note: without the doubled peak: {exc.message}")
        return question, schedule


def _notes(setting: Setting, budget: Budget, schedule: Schedule, cost: CostModel, serve: str) -> list[str]:
    """What weakens the advice, with what to do about it."""
    found = []
    if setting.max_batch > (known := cost.decode_us[-1][0]):
        found.append(
            f"steps of more than {known} rows are guessed, in a straight line: --max-batch {known} stays within "
            "what was measured, a --fit of a log with larger batches measures more"
        )
    timeout_s = server_config(serve).timeout_s
    if timeout_s is not None and timeout_s < budget.latency_s:
        found.append(
            f"the server gives up after {format_duration(timeout_s)}, before the budget is over: "
            '--serve "--timeout none" leaves it all of it'
        )
    if (wanted := round(100 / (100 - budget.percent)) if budget.percent < 100 else 1) > schedule.num_requests:
        found.append(
            f"{schedule.num_requests} requests are few: their p{budget.percent:g} is the slowest of them; "
            f"give {wanted} or more"
        )
    return found


def _asked(given: Mapping[str, Any]) -> dict[str, Any]:
    """Options as an experiment's file has them."""
    return {
        name: str(value.resolve()) if isinstance(value, Path) else value
        for name, value in given.items()
        if name != "seed" and value not in (None, [], ())
    }


def _is_peak_asked(context: typer.Context) -> bool:
    names = ("inject_peak", "peak_factor", "peak_width", "peak_at", "peak_count")
    sources = [context.get_parameter_source(name) for name in names]
    return any(source is not None and source.name == "COMMANDLINE" for source in sources)


def _check_flags(flags: str, option: str) -> None:
    try:
        simulable_config(flags)
    except UsageError as exc:
        raise UsageError(f"{option}: {exc.message}", hint=exc.hint) from exc


def _is_simulable(flags: str, *, given: str | None) -> bool:
    """Whether the present setting can be simulated. Raises UsageError for one that was given and cannot."""
    try:
        _check_flags(flags, "--present")
    except UsageError as exc:
        if given is not None:
            raise
        console.note(f"note: the run's own setting is not simulated ({exc.message})")
        return False
    return True


def _law(schedule: Schedule, best: Outlook, budget: Budget) -> Little | None:
    """Little's law at the busy rate, with the time in execution that the best setting has."""
    if best.service_s is None or best.mean_batch is None:
        return None
    busy = rates_of(schedule.planned_ns, schedule.end_ns).busy
    capacity = best.setting.max_batch * best.setting.inflight / best.service_s
    return little(busy, best.service_s, capacity, budget.latency_s, best.setting.max_batch)


def _first(outlooks: Sequence[Outlook], policies: Sequence[str]) -> Setting | None:
    return next((one.setting for one in outlooks if one.setting.policy in policies), None)
