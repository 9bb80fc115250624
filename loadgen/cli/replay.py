"""`loadgen replay`: fire a trace at a target, in open loop, and keep what happened."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from loadgen.cli import console
from loadgen.cli import sending_options as sending
from loadgen.cli import shape_options as options
from loadgen.cli.calibrate import compare_with_calibration
from loadgen.cli.live import LiveDisplay
from loadgen.cli.plan import show_plan
from loadgen.cli.report import Goodput, MaxErrorRate, MaxLateness, Slo, criteria_from, show_report
from loadgen.durations import parse_duration_s
from loadgen.errors import UsageError
from loadgen.plan.planner import plan
from loadgen.plan.prompts import CHARS_PER_TOKEN
from loadgen.plan.schedule import Schedule
from loadgen.plan.summary import summarise
from loadgen.plan.token_prompts import prompts_for
from loadgen.ray_cluster import free_cpus, joined_cluster
from loadgen.replay.consent import refuse_without_consent
from loadgen.replay.descriptors import least_connections, refuse_beyond_descriptors
from loadgen.replay.dialects import dialect_named
from loadgen.replay.payloads import Asking
from loadgen.replay.reach import metrics_transport, reach
from loadgen.replay.record_parts import checked_folder
from loadgen.replay.retry import RetryPolicy
from loadgen.replay.run import Run, execute
from loadgen.replay.run_folder import RunFolder
from loadgen.replay.secrets import (
    parse_headers,
    read_key_file,
    redacted_command,
    secrets_in,
    secrets_in_proxy,
)
from loadgen.replay.served_target import served_target
from loadgen.replay.target import Timeouts, parse_url
from loadgen.replay.template_file import read_template
from loadgen.replay.worker import WorkerSettings
from loadgen.replay.worker_process import WorkerProcesses
from loadgen.replay.workers import Workers, WorkerTask
from loadgen.telemetry.probes import probes_for
from loadgen.trace.parquet import read_trace
from loadgen.trace.statistics import SECOND_NS, peak_within

_TARGET, _SENDING, _WAITING, _KEEPING = "Target", "Sending", "How long to wait", "Keeping and judging"


def _in(panel: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **settings)


@options.takes_shape(before="tokenizer")
def replay(  # one local a option: the command line is wide, and flat is how it reads
    context: typer.Context,
    trace: Annotated[Path, typer.Argument(help="A trace (Parquet, made by loadgen).", metavar="TRACE")],
    url: Annotated[
        str | None, _in(_TARGET, "--url", "--base-url", help="The server: http://HOST:PORT.")
    ] = None,
    serve: Annotated[
        str | None,
        _in(
            _TARGET,
            "--serve",
            metavar="FLAGS",
            help="Start the bundled server for this run, with these flags.",
        ),
    ] = None,
    model: sending.Model = None,
    endpoint_type: sending.EndpointType = "chat",
    template: sending.Template = None,
    api_key: sending.ApiKey = None,
    api_key_file: sending.ApiKeyFile = None,
    header: sending.Header = None,
    unix_socket: Annotated[
        Path | None,
        _in(_TARGET, "--unix-socket", help="Connect to this socket; --url unix:/PATH does the same."),
    ] = None,
    cert: sending.Cert = None,
    cert_key: sending.CertKey = None,
    proxy: sending.Proxy = None,
    insecure: sending.Insecure = False,
    tokenizer: options.TokenizerPath = None,
    seed: options.Seed = 0,
    stream: sending.Stream = None,
    ignore_eos: sending.IgnoreEos = False,
    sessions: sending.Sessions = "planned",
    warmup_requests: sending.WarmupRequests = 0,
    retries: sending.Retries = 0,
    chars_per_token: sending.CharsPerToken = CHARS_PER_TOKEN,
    workers: sending.Workers = 1,
    ray: Annotated[
        str | None,
        _in(
            _SENDING,
            "--ray",
            metavar="ADDRESS",
            help="Spread the workers over a Ray cluster: HOST:PORT, auto (the one around), local (begun here).",
        ),
    ] = None,
    transport: sending.Transport = "fast",
    reuse: sending.Reuse = True,
    http2: sending.Http2 = False,
    realtime: sending.Realtime = False,
    yes: Annotated[
        bool,
        _in(
            _SENDING, "--yes", help="Send more than 50 requests a second to a public address without asking."
        ),
    ] = False,
    max_concurrency: sending.MaxConcurrency = None,
    timeout: sending.Timeout = "10m",
    timeout_connect: sending.TimeoutConnect = "10s",
    timeout_first_token: sending.TimeoutFirstToken = None,
    timeout_gap: sending.TimeoutGap = None,
    drain: sending.Drain = "60s",
    abort_after: Annotated[
        str | None,
        _in(
            _WAITING,
            "--abort-after",
            help="End the run when all requests failed for so long. Default: never.",
        ),
    ] = None,
    out_dir: Annotated[Path, _in(_KEEPING, "--out-dir", help="Where run folders go.")] = Path("reports"),
    name: Annotated[
        str | None, _in(_KEEPING, "--name", help="Begins the folder's name. Default: the trace's.")
    ] = None,
    slo: Slo = None,
    max_error_rate: MaxErrorRate = None,
    max_lateness: MaxLateness = None,
    goodput: Goodput = None,
    server_metrics: Annotated[
        list[str] | None,
        _in(
            _KEEPING,
            "--server-metrics",
            metavar="URL",
            help="Sample these metrics too (DCGM exporter, another port); the target's /metrics always is.",
        ),
    ] = None,
    gpu_telemetry: Annotated[
        bool | None,
        _in(
            _KEEPING,
            "--gpu-telemetry/--no-gpu-telemetry",
            help="Read the GPUs of this machine. Default: where the target runs on it.",
        ),
    ] = None,
    records_to: Annotated[
        str | None,
        _in(
            _KEEPING,
            "--records-to",
            metavar="FOLDER",
            help="With --ray: workers leave their records in this shared folder or URL until the end.",
        ),
    ] = None,
    as_json: Annotated[
        bool, _in(_KEEPING, "--json", help="Print the report as JSON on standard output.")
    ] = False,
    **shaping: Any,
) -> None:
    """Fire a trace at a server in open loop, with injected peaks and bursts, and report what held.

    Every request leaves at its recorded moment, whatever the server does; latency counts from that moment.
    Ctrl-C ends the run early and keeps all of it. The run folder holds everything; `loadgen report` shows it again.
    """
    shape = options.shape_from(seed=seed, **shaping)
    if records_to is not None and ray is None:
        raise UsageError("--records-to needs --ray", hint="on one machine, workers write to the run folder")
    if (url is None) == (serve is None):
        raise UsageError("give --url or --serve, one of them", hint="--url http://HOST:PORT names the server")
    if unix_socket is not None and url is None:
        raise UsageError(
            "--unix-socket needs --url", hint="--url http://localhost names what is asked for over it"
        )
    socket_path = None if unix_socket is None else str(unix_socket.absolute())
    checked_url = None if url is None else parse_url(url, unix_socket=socket_path)
    sending.check_transport(transport, proxy, http2=http2, cert_key=cert_key, cert=cert)
    read_from = read_template(template) if template else None
    dialect = dialect_named(endpoint_type, read_from)
    if ignore_eos and not dialect.can_force_length:
        raise UsageError(
            f"--ignore-eos cannot be asked of --endpoint-type {endpoint_type}",
            hint="leave it out; the report says how many answers fell short",
        )
    headers = parse_headers(header or (), read_key_file(api_key_file) if api_key_file else api_key)
    timeouts = Timeouts(
        connect_s=parse_duration_s(timeout_connect, option="--timeout-connect"),
        first_token_s=sending.limit_s(timeout_first_token, "--timeout-first-token"),
        gap_s=sending.limit_s(timeout_gap, "--timeout-gap"),
        total_s=sending.limit_s(timeout, "--timeout"),
    )
    abort_after_s = sending.limit_s(abort_after, "--abort-after")
    sending.check_sessions(sessions)
    drain_s = parse_duration_s(drain, option="--drain")
    criteria = criteria_from(
        slo=slo, max_error_rate=max_error_rate, max_lateness=max_lateness, goodput=goodput
    )
    read = read_trace(trace)
    schedule = plan(read, shape)
    prompts = prompts_for(
        tokenizer,
        seed=seed,
        chars_per_token=chars_per_token,
        prefix_block_tokens=read.metadata.prefix_block_tokens,
    )

    with served_target(serve) if serve is not None else nullcontext(url) as served_url:
        where = checked_url or parse_url(str(served_url))
        access = sending.access_from(
            headers=headers,
            insecure=insecure,
            cert=cert,
            cert_key=cert_key,
            proxy=proxy,
            http2=http2,
            reuse=reuse,
        )
        reached = reach(where, access, model=model, needs_model=dialect.needs_model)
        run = Run(
            name=name or trace.stem,
            out_dir=out_dir,
            schedule=schedule,
            trace_name=trace.name,
            trace_rows=read.num_rows,
            seed=seed,
            settings=WorkerSettings(
                target=reached.target,
                timeouts=timeouts,
                max_concurrency=max_concurrency,
                realtime=realtime,
                drain_s=drain_s,
                transport=transport,
                retries=RetryPolicy(retries),
                sessions_wait=sessions == "wait",
                secrets=(*secrets_in(headers), *secrets_in_proxy(proxy)),
            ),
            asking=Asking(
                endpoint_type, reached.model, "", stream, ignore_eos, read_from, sessions == "wait"
            ),
            prompts=prompts,
            num_workers=workers,
            num_warmup=warmup_requests,
            abort_after_s=abort_after_s,
            target_facts=reached.facts,
            command=redacted_command(["loadgen", *sys.argv[1:]]),
            options=_kept_options(context),
            records_to=None if records_to is None else checked_folder(records_to),
        )
        _refuse_what_must_not_start(run, is_asked=sys.stdin.isatty() and not yes, is_sent_here=ray is None)
        with nullcontext(WorkerProcesses) if ray is None else _on_ray(ray, run) as workers_for:
            folder, signal_name = _execute(
                run, schedule, server_metrics or (), workers_for, reads_gpu=gpu_telemetry
            )

    code = show_report(folder, criteria, as_json=as_json)
    console.note(f"run kept in {folder.path}")
    raise typer.Exit(128 + signal.Signals[signal_name] if signal_name else code)


def _refuse_what_must_not_start(run: Run, *, is_asked: bool, is_sent_here: bool) -> None:
    planned_ns, target = run.schedule.planned_ns, run.settings.target
    if is_sent_here:  # elsewhere each node looks at its own limits
        needed = least_connections(planned_ns, run.settings.max_concurrency)
        refuse_beyond_descriptors(-(-needed // run.num_workers))
    if is_asked:
        refuse_without_consent(
            target.host,
            target.address,
            peak_within(planned_ns, SECOND_NS),
            is_own_socket=target.unix_socket is not None,
        )


@contextmanager
def _on_ray(address: str, run: Run) -> Iterator[Callable[[Sequence[WorkerTask]], Workers]]:
    """What makes the workers of a run on a cluster, with a seat taken for each."""
    with joined_cluster(address, least_cpus=run.num_workers):
        # Only now: Ray is an extra, and slow to import.
        from loadgen.replay.on_ray.ray_workers import RayWorkers  # noqa: PLC0415
        from loadgen.replay.on_ray.seats import (  # noqa: PLC0415
            ROOM_WITHIN_S,
            refuse_unreachable,
            taken_seats,
        )

        if (free := free_cpus()) < run.num_workers:
            console.note(
                f"the cluster has {free} CPUs free: waiting for {run.num_workers}, one a worker, "
                f"for {ROOM_WITHIN_S / 60:.0f} min at most"
            )
        with taken_seats(run.num_workers) as seats:
            refuse_unreachable(run.settings.target, seats)
            yield partial(RayWorkers, seats)


def _execute(
    run: Run,
    schedule: Schedule,
    more_metrics: Sequence[str],
    workers_for: Callable[[Sequence[WorkerTask]], Workers],
    *,
    reads_gpu: bool | None,
) -> tuple[RunFolder, str | None]:
    # Before the first send: a wrong unit or window is seen here, not after half an hour.
    show_plan(console.err(), schedule, summarise(schedule), title=run.trace_name)
    if workers_for is WorkerProcesses:
        compare_with_calibration(run)
    model = f", model {run.asking.model}" if run.asking.model else ""
    console.note(f"sending to {run.settings.target.url}{model}")
    with LiveDisplay(schedule) as display:
        target = run.settings.target
        probes = probes_for(
            target.base_url,
            target.headers,
            metrics_transport(target),
            more_metrics=more_metrics,
            reads_gpu=reads_gpu,
        )
        display.watch([probe.samples for probe in probes])
        folder, ending = execute(run, display.show, probes, workers_for)
    if ending.signal_name:
        console.note(f"interrupted by {ending.signal_name}; everything up to here is kept")
    elif ending.gave_up:
        console.note(f"ended early: {ending.gave_up}")
    return folder, ending.signal_name


def _kept_options(context: typer.Context) -> dict[str, Any]:
    """The options as given, for run.json: without those that hold secrets, and paths as text."""
    kept = {key: value for key, value in context.params.items() if key not in ("api_key", "header", "proxy")}
    return {key: str(value) if isinstance(value, Path) else value for key, value in kept.items()}
