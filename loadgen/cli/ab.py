"""`loadgen ab`: interleaved pairs of short runs of two versions, until it is decided which is worse."""

from __future__ import annotations

import shlex
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

import typer

from loadgen.cli import console
from loadgen.cli import sending_options as sending
from loadgen.cli import shape_options as options
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
    terms_from,
)
from loadgen.cli.live import LiveDisplay
from loadgen.cli.plan import show_plan
from loadgen.cli.report import MaxLateness, criteria_from
from loadgen.compare import words
from loadgen.compare.ab_experiment import AbExperiment, Bounds, Ended, Side, SideRun
from loadgen.compare.ab_folder import AbFolder, Pair
from loadgen.compare.ab_target import AbTarget, parse_target, started
from loadgen.compare.compared_run import load_run
from loadgen.compare.comparison import Comparison, Terms
from loadgen.durations import format_duration, parse_duration_s
from loadgen.errors import ExitCode, UsageError
from loadgen.experiment.sending import Sending, Sent
from loadgen.plan.planner import plan
from loadgen.plan.prompts import CHARS_PER_TOKEN
from loadgen.plan.schedule import Schedule
from loadgen.plan.summary import summarise
from loadgen.plan.token_prompts import prompts_for
from loadgen.replay.secrets import parse_headers, read_key_file, redacted_command
from loadgen.replay.target import Timeouts
from loadgen.replay.template_file import read_template
from loadgen.replay.worker import Progress
from loadgen.report.html import require_library
from loadgen.report.report import build_report, write_report
from loadgen.trace.parquet import read_trace

_SIDES, _SENDING, _STOPPING, _KEEPING = "The two versions", "Sending", "When to stop", "Keeping"
# Of a resumed experiment these are taken from the command line; everything else is as it was.
_ANEW = (
    "resume",
    "max_time",
    "api_key",
    "api_key_file",
    "header",
    "proxy",
    "as_json",
    "markdown",
    "junit",
    "html",
)
_SECRET = ("api_key", "header", "proxy")
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
        given = _as_it_was(folder.settings, given)
    experiment = _Experiment(given)
    if folder is None:
        folder = AbFolder.create(Path(given["out_dir"]), experiment.name, experiment.settings)
    elif folder.settings["schedule_hash"] != experiment.schedule.schedule_hash:
        raise UsageError(f"{resume}: the trace has changed since", hint="begin a new experiment")
    raise typer.Exit(_run(experiment, folder))


class _Experiment:
    """The options of `ab`, checked and made into what is run."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        if given["trace"] is None or given["a"] is None or given["b"] is None:
            raise UsageError(
                "give a trace, --a and --b", hint="loadgen ab TRACE --a http://OLD --b http://NEW"
            )
        self.given = given
        self.targets: dict[Side, AbTarget] = {
            "a": parse_target(given["a"], option="--a"),
            "b": parse_target(given["b"], option="--b"),
        }
        key_file = given["api_key_file"]
        key = read_key_file(Path(key_file)) if key_file else given["api_key"]
        sending.check_transport(
            given["transport"],
            given["proxy"],
            http2=given["http2"],
            cert_key=_path(given["cert_key"]),
            cert=_path(given["cert"]),
        )
        sending.check_sessions(given["sessions"])
        self.ready_within_s = _above_0_s(given["ready_within"], "--ready-within")
        self.max_time_s = None if given["max_time"] is None else _above_0_s(given["max_time"], "--max-time")
        self.criteria = criteria_from(
            slo=None, max_error_rate=None, max_lateness=given["max_lateness"], goodput=given["goodput"]
        )
        # Whoever grants lateness grants what makes it: both only say how busy the generator's machine may be.
        allowed = self.criteria.thresholds
        self.thresholds = replace(allowed, max_loop_lag_s=max(allowed.max_loop_lag_s, allowed.max_lateness_s))
        self.terms: Terms = terms_from(
            margin=given["margin"],
            alpha=given["alpha"],
            goodput=given["goodput"],
            fail_on=given["fail_on"],
            gates=None if given["gates"] is None else Path(given["gates"]),
            max_looks=given["max_pairs"],
        )
        # An experiment that is resumed may be older than an option.
        shape = options.shape_from(
            **{name: given[name] for name in signature(options.shape_from).parameters if name in given}
        )
        self.trace_path = Path(given["trace"])
        self.trace = read_trace(self.trace_path)
        self.schedule: Schedule = plan(self.trace, shape)
        tokenizer = given.get("tokenizer")
        self.sending = Sending(
            prompts=prompts_for(
                None if tokenizer is None else Path(tokenizer),
                seed=given["seed"],
                chars_per_token=given["chars_per_token"],
                prefix_block_tokens=self.trace.metadata.prefix_block_tokens,
            ),
            endpoint_type=given["endpoint_type"],
            template=read_template(Path(given["template"])) if given["template"] else None,
            model=given["model"],
            access=sending.access_from(
                headers=parse_headers(given["header"] or (), key),
                cert=_path(given["cert"]),
                cert_key=_path(given["cert_key"]),
                **{name: given[name] for name in ("insecure", "proxy", "http2", "reuse")},
            ),
            stream=given["stream"],
            ignore_eos=given["ignore_eos"],
            timeouts=Timeouts(
                connect_s=parse_duration_s(given["timeout_connect"], option="--timeout-connect"),
                first_token_s=sending.limit_s(given["timeout_first_token"], "--timeout-first-token"),
                gap_s=sending.limit_s(given["timeout_gap"], "--timeout-gap"),
                total_s=sending.limit_s(given["timeout"], "--timeout"),
            ),
            max_concurrency=given["max_concurrency"],
            transport=given["transport"],
            retries=given["retries"],
            sessions_wait=given["sessions"] == "wait",
            warmup_requests=given["warmup_requests"],
            drain_s=parse_duration_s(given["drain"], option="--drain"),
            realtime=given["realtime"],
            workers=given["workers"],
            seed=given["seed"],
        )
        self.name = given["name"] or self.trace_path.stem
        self.display = sys.stderr.isatty()

    @property
    def settings(self) -> dict[str, Any]:
        """What ab.json keeps: the options without secrets, and what they amount to."""
        kept = {
            key: str(value) if isinstance(value, Path) else value
            for key, value in self.given.items()
            if key not in _SECRET and key not in ("resume", "as_json", "markdown", "junit", "html")
        }
        kept["trace"] = str(self.trace_path.resolve())
        for side in ("a", "b"):
            kept[side] = _without_secrets(str(kept[side]))
        return {"options": kept, "schedule_hash": self.schedule.schedule_hash}

    def side_run(self, folder: AbFolder, side: Side) -> SideRun:
        """One run of a side, in the experiment's folder."""
        sent = Sent(
            name=side,
            out_dir=folder.path,
            schedule=self.schedule,
            trace_name=self.trace_path.name,
            trace_rows=self.trace.num_rows,
            command=tuple(_without_secrets(word) for word in redacted_command(["loadgen", *sys.argv[1:]])),
            options=self.settings["options"],
        )
        with started(self.targets[side], ready_within_s=self.ready_within_s) as url:
            if self.display:
                with LiveDisplay(self.schedule) as display:
                    kept, ending = self.sending.run(url, sent, display.show)
            else:
                kept, ending = self.sending.run(url, sent, _silent)
        write_report(build_report(kept, self.thresholds, (), self.criteria.bounds), kept)
        return SideRun(load_run(kept.path), ending.signal_name)


def _run(experiment: _Experiment, folder: AbFolder) -> int:
    given, schedule = experiment.given, experiment.schedule
    show_plan(console.err(), schedule, summarise(schedule), title=experiment.trace_path.name)
    if schedule.end_ns / 1e9 > _LONG_S:
        console.note(
            f"note: each run lasts {format_duration(schedule.end_ns / 1e9)}; many short runs tell more than few "
            "long ones: --busiest 60s, or --start and --duration"
        )
    clock = _Clock(experiment.max_time_s)
    runner = AbExperiment(
        folder, lambda side: experiment.side_run(folder, side), experiment.terms, given["seed"], clock.on_pair
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


def _as_it_was(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an experiment, with those of the command line that are taken anew."""
    kept = dict(settings["options"])
    for side in ("a", "b"):
        # A command that held a secret is kept without it, so it has to be given again.
        if given[side] is not None:
            if _without_secrets(given[side]) != kept[side]:
                raise UsageError(f"--{side} is another than before", hint=f"it was {kept[side]}")
            kept[side] = given[side]
        elif "***" in kept[side]:
            raise UsageError(f"--{side} held a secret, which is not kept", hint=f"give --{side} again")
    return {**given, **kept, **{name: given[name] for name in _ANEW}}


def _without_secrets(text: str) -> str:
    """A target as it may be kept: a command's own options that hold keys are hidden."""
    if " " not in text:
        return text
    try:
        found = shlex.split(text)
    except ValueError:
        return text
    hidden = redacted_command(found)
    return text if list(hidden) == found else shlex.join(hidden)


def _path(text: str | Path | None) -> Path | None:
    """Of an option, which a resumed experiment has as text."""
    return None if text is None else Path(text)


def _above_0_s(text: str, option: str) -> float:
    duration_s = parse_duration_s(text, option=option)
    if duration_s <= 0:
        raise UsageError(f"{option} is {text}", hint="give a time above 0")
    return duration_s


def _silent(_: Progress) -> None:
    """Where nobody watches, a line for each pair is enough."""
