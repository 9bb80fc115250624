"""`loadgen ab`: interleaved pairs of short runs of two versions, until it is decided which is worse."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from loadgen.cli import console
from loadgen.cli import sending_options as sending
from loadgen.cli import shape_options as options
from loadgen.cli.ab_setup import AbSetup, as_it_was
from loadgen.cli.compare import (
    Alpha,
    AsJson,
    FailOn,
    GateFile,
    GoodputBounds,
    Html,
    Junit,
    Margin,
    Markdown,
    show,
)
from loadgen.cli.plan import show_plan
from loadgen.cli.report import MaxLateness
from loadgen.compare import words
from loadgen.compare.ab_experiment import AbExperiment, Bounds, Ended
from loadgen.compare.ab_folder import AbFolder, Pair
from loadgen.compare.comparison import Comparison
from loadgen.durations import format_duration
from loadgen.errors import ExitCode, UsageError
from loadgen.plan.prompts import CHARS_PER_TOKEN
from loadgen.plan.summary import summarise
from loadgen.report.html import require_library

_SIDES, _SENDING, _STOPPING, _KEEPING = "The two versions", "Sending", "When to stop", "Keeping"
# Longer runs than this tell less than more of them would.
_LONG_S = 300.0


def _in(panel: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **settings)


@options.takes_shape(before="tokenizer")
def ab(  # one local a option: the command line is wide, and flat is how it reads
    context: typer.Context,
    trace: Annotated[
        Path | None, typer.Argument(help="A trace (Parquet, made by loadgen).", metavar="TRACE")
    ] = None,
    a: Annotated[
        str | None,
        _in(
            _SIDES,
            "--a",
            metavar="TARGET",
            help="The version that is known: a URL, flags of the bundled server, or a command with {port}.",
        ),
    ] = None,
    b: Annotated[
        str | None, _in(_SIDES, "--b", metavar="TARGET", help="The version in question, likewise.")
    ] = None,
    ready_within: Annotated[
        str, _in(_SIDES, "--ready-within", metavar="TIME", help="A command's server must be up by then.")
    ] = "10m",
    model: sending.Model = None,
    endpoint_type: sending.EndpointType = "chat",
    template: sending.Template = None,
    api_key: sending.ApiKey = None,
    api_key_file: sending.ApiKeyFile = None,
    header: sending.Header = None,
    cert: sending.Cert = None,
    cert_key: sending.CertKey = None,
    proxy: sending.Proxy = None,
    insecure: sending.Insecure = False,
    tokenizer: options.TokenizerPath = None,
    stream: sending.Stream = None,
    ignore_eos: sending.IgnoreEos = False,
    sessions: sending.Sessions = "planned",
    warmup_requests: sending.WarmupRequests = 0,
    retries: sending.Retries = 0,
    chars_per_token: sending.CharsPerToken = CHARS_PER_TOKEN,
    workers: sending.Workers = 1,
    transport: sending.Transport = "fast",
    reuse: sending.Reuse = True,
    http2: sending.Http2 = False,
    realtime: sending.Realtime = False,
    max_concurrency: sending.MaxConcurrency = None,
    timeout: sending.Timeout = "10m",
    timeout_connect: sending.TimeoutConnect = "10s",
    timeout_first_token: sending.TimeoutFirstToken = None,
    timeout_gap: sending.TimeoutGap = None,
    drain: sending.Drain = "60s",
    max_lateness: MaxLateness = None,
    max_pairs: Annotated[
        int,
        _in(
            _STOPPING,
            "--max-pairs",
            min=2,
            max=200,
            help="No more pairs than this. The plan of looks is made for it, so it stays as it was at the start.",
        ),
    ] = 20,
    min_pairs: Annotated[
        int, _in(_STOPPING, "--min-pairs", min=1, help="Go on until so many pairs, though it is decided.")
    ] = 1,
    max_time: Annotated[
        str | None,
        _in(_STOPPING, "--max-time", metavar="TIME", help="Begin no pair that would end later than this."),
    ] = None,
    margin: Margin = "5%",
    alpha: Alpha = "5%",
    goodput: GoodputBounds = None,
    fail_on: FailOn = None,
    gates: GateFile = None,
    out_dir: Annotated[Path, _in(_KEEPING, "--out-dir", help="Where the experiment's folder goes.")] = Path(
        "reports"
    ),
    name: Annotated[
        str | None, _in(_KEEPING, "--name", help="Begins the folder's name. Default: the trace's.")
    ] = None,
    resume: Annotated[
        Path | None,
        _in(
            _KEEPING,
            "--resume",
            metavar="FOLDER",
            help="Go on with an experiment that was stopped, as it was set up.",
        ),
    ] = None,
    markdown: Markdown = None,
    junit: Junit = None,
    html: Html = None,
    as_json: AsJson = False,
    **shaping: Any,
) -> None:
    """Tell whether version B is worse than A: short runs of one schedule in pairs, in drawn order, until decided.

    The verdict may be looked at after each pair; false alarms stay within --alpha over all looks, figures and
    windows. A target that is a URL stays up; flags and commands are started for each run and stopped after it.
    Ctrl-C keeps everything, and --resume goes on. Exit code 1: B is worse, or a gate is broken; 3: not decided
    within --max-pairs or --max-time.
    """
    if html is not None:
        require_library()
    given = dict(context.params)
    folder = None
    if resume is not None:
        if trace is not None:
            raise UsageError("--resume takes no TRACE", hint=f"loadgen ab --resume {resume}")
        folder = AbFolder.open(resume)
        given = as_it_was(folder.settings, given)
    setup = AbSetup(given)
    if folder is None:
        folder = AbFolder.create(Path(given["out_dir"]), setup.name, setup.settings)
    elif folder.settings["schedule_hash"] != setup.schedule.schedule_hash:
        raise UsageError(f"{resume}: the trace has changed since", hint="begin a new experiment")
    raise typer.Exit(_run(setup, folder))


def _run(setup: AbSetup, folder: AbFolder) -> int:
    given, schedule = setup.given, setup.schedule
    show_plan(console.err(), schedule, summarise(schedule), title=setup.trace_path.name)
    if schedule.end_ns / 1e9 > _LONG_S:
        console.note(
            f"note: each run lasts {format_duration(schedule.end_ns / 1e9)}; many short runs tell more than few "
            "long ones: --busiest 60s, or --start and --duration"
        )
    clock = _Clock(setup.max_time_s)
    runner = AbExperiment(
        folder, lambda side: setup.side_run(folder, side), setup.terms, given["seed"], clock.on_pair
    )
    if (count := runner.resume()) or given["resume"]:
        console.note(f"going on after {count} pairs that count")
    try:
        ended = runner.run(Bounds(given["max_pairs"], given["min_pairs"], clock.has_time))
    except KeyboardInterrupt:
        ended = runner.conclude()
        code = _shown(ended, given)
        _tell_kept(folder, ended)
        return int(ExitCode.INTERRUPTED) if ended.why == "interrupted" else code
    code = _shown(ended, given)
    _tell_kept(folder, ended)
    return 128 + signal.Signals[ended.signal_name] if ended.signal_name else code


def _shown(ended: Ended, given: Mapping[str, Any]) -> int:
    if ended.comparison is None:
        console.note("no pair was run to its end; nothing can be said")
        return int(ExitCode.INCONCLUSIVE)
    forms = {form: given[form] for form in ("markdown", "junit", "html")}
    return show(ended.comparison, **forms, as_json=given["as_json"])


def _tell_kept(folder: AbFolder, ended: Ended) -> None:
    console.note(f"stopped: {ended.why}; experiment kept in {folder.path}")
    if ended.why in ("interrupted", "max-time"):
        console.note(f"go on with: loadgen ab --resume {folder.path}")


class _Clock:
    """Tells of pairs as they end, and whether there is time for one more."""

    def __init__(self, max_time_s: float | None) -> None:
        self._max_time_s = max_time_s
        self._started_s = self._last_s = time.monotonic()
        self._longest_s = 0.0

    def has_time(self) -> bool:
        elapsed_s = time.monotonic() - self._started_s
        return self._max_time_s is None or elapsed_s + self._longest_s <= self._max_time_s

    def on_pair(self, number: int, pair: Pair, comparison: Comparison | None) -> None:
        now_s = time.monotonic()
        self._longest_s, self._last_s = max(self._longest_s, now_s - self._last_s), now_s
        order = " ".join(pair.order.upper())
        if pair.void is not None:
            console.note(f"pair {number} ({order}): does not count, {pair.void}")
        elif comparison is not None:
            console.note(f"pair {number} ({order}): {words.last_pair(comparison)}")
            console.note(f"  so far: {words.so_far(comparison)}")
