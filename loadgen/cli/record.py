"""`loadgen record`: logs to a trace."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing, nullcontext
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer
from rich.text import Text

from loadgen.cli import console
from loadgen.cli.output_file import default_output, refuse_to_overwrite
from loadgen.cli.progress import ByteProgress
from loadgen.cli.trace_figures import describe
from loadgen.durations import format_duration, parse_duration_s
from loadgen.errors import UsageError
from loadgen.ray_cluster import free_cpus, joined_cluster
from loadgen.record.fidelity import Fidelity
from loadgen.record.following import follow_logs
from loadgen.record.formats.catalog import FORMATS
from loadgen.record.reading import lean_memory
from loadgen.record.recorder import FilesReader, Recorder, record_logs
from loadgen.record.selection import Selection
from loadgen.record.settings import RecordSettings
from loadgen.record.wrappers.catalog import WRAPPERS
from loadgen.record.zone import parse_moment_ns
from loadgen.trace.location import is_remote, location
from loadgen.trace.parquet import read_trace
from loadgen.trace.source_stream import STDIN

_FIELDS = "Fields (jsonl, csv, logfmt, parquet)"
_SELECTION = "Selection"
_LIVE = "Live logs"
_TELL_EVERY_S = 10.0


def _field(option: str, text: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(option, help=text, metavar="FIELD", rich_help_panel=_FIELDS)
    return info


def record(
    log: Annotated[
        list[str],
        typer.Argument(
            help="Log files in any order, plain or gz, bz2, xz, zst, or URLs (s3://, gs://); - is standard input.",
            metavar="LOG...",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The trace to write. Default: beside the log, .parquet."),
    ] = None,
    format_name: Annotated[
        str, typer.Option("--format", help=f"Format of the logs: auto, {', '.join(FORMATS)}.")
    ] = "auto",
    path: Annotated[
        list[str] | None,
        typer.Option(
            help="Keep requests whose path begins so; repeatable. Default: every POST.",
            rich_help_panel=_SELECTION,
        ),
    ] = None,
    log_format: Annotated[
        str | None,
        typer.Option(help="nginx, apache: the format string of the server, if fields have other names."),
    ] = None,
    wrapper: Annotated[
        str,
        typer.Option(
            help=f"What wraps the lines: auto, none, {', '.join(WRAPPERS)}. Its moment is the field @written."
        ),
    ] = "auto",
    time_field: Annotated[str | None, _field("--time", "Field of the moment; meta.t_recv is nested.")] = None,
    time_unit: Annotated[
        str,
        typer.Option(
            help="Its unit: auto, s, ms, us, ns, iso, or a pattern such as '%d.%m.%Y %H:%M:%S.%f'.",
            rich_help_panel=_FIELDS,
        ),
    ] = "auto",
    zone: Annotated[
        str | None,
        typer.Option(
            help="Zone of stamps that carry none: UTC, +02:00, Europe/Berlin.", rich_help_panel=_FIELDS
        ),
    ] = None,
    year: Annotated[int | None, typer.Option(help="Year of stamps that carry none (vllm, syslog).")] = None,
    stamp: Annotated[
        str | None,
        typer.Option(
            help="What the moment marks: arrival or completion (then the duration is subtracted).",
            rich_help_panel=_FIELDS,
        ),
    ] = None,
    duration_field: Annotated[str | None, _field("--duration-field", "Field of the duration.")] = None,
    duration_unit: Annotated[
        str,
        typer.Option(
            help="Its unit: s, ms, us, ns, text (1m2.5s); auto reads it off the name.",
            rich_help_panel=_FIELDS,
        ),
    ] = "auto",
    input_tokens: Annotated[str | None, _field("--input-tokens", "Field of the prompt's tokens.")] = None,
    input_chars: Annotated[str | None, _field("--input-chars", "Field of the prompt's characters.")] = None,
    input_bytes: Annotated[str | None, _field("--input-bytes", "Field of the request's bytes.")] = None,
    output_tokens: Annotated[str | None, _field("--output-tokens", "Field of the answer's tokens.")] = None,
    output_chars: Annotated[str | None, _field("--output-chars", "Field of the answer's characters.")] = None,
    output_bytes: Annotated[str | None, _field("--output-bytes", "Field of the answer's bytes.")] = None,
    model_field: Annotated[str | None, _field("--model-field", "Field of the model's name.")] = None,
    status_field: Annotated[str | None, _field("--status-field", "Field of the HTTP status.")] = None,
    session_field: Annotated[
        str | None, _field("--session-field", "Field of the session; only a number is kept.")
    ] = None,
    prefix_blocks: Annotated[
        bool,
        typer.Option(
            "--prefix-blocks",
            help="Keep which prompts begin alike, as salted hashes of their blocks; no text, no ids.",
        ),
    ] = False,
    prompt_field: Annotated[
        str | None, _field("--prompt-field", "Field of the prompt or messages, for --prefix-blocks.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(help="Keep arrivals from here on: 2026-10-25T09:00:00Z.", rich_help_panel=_SELECTION),
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Keep arrivals before this moment.", rich_help_panel=_SELECTION)
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(help="Keep this status: 429, or 2xx; repeatable.", rich_help_panel=_SELECTION),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Keep this model; * and ? stand for any text; repeatable.", rich_help_panel=_SELECTION
        ),
    ] = None,
    busiest: Annotated[
        str | None,
        typer.Option(
            help="Keep the stretch of this width with the most arrivals: 5m.", rich_help_panel=_SELECTION
        ),
    ] = None,
    sample_sessions: Annotated[
        float | None,
        typer.Option(
            help="Keep this share of the sessions, each whole, the same ones every time: 0.1.",
            rich_help_panel=_SELECTION,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that read lines. Default: one a core.", min=1)
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            help="Read the files of a log on a Ray cluster: HOST:PORT, auto (the one around), local (begun here).",
            metavar="ADDRESS",
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Go on with the last log as it grows, across its rotation; the trace is complete at all times.",
            rich_help_panel=_LIVE,
        ),
    ] = False,
    duration: Annotated[
        str | None,
        typer.Option(
            help="With --follow: end after this time: 1h. Default: until Ctrl-C.", rich_help_panel=_LIVE
        ),
    ] = None,
    accept_completion_times: Annotated[
        bool,
        typer.Option(
            "--accept-completion-times", help="Take completion for arrival where no duration is logged."
        ),
    ] = False,
    show_lines: Annotated[
        bool,
        typer.Option("--show-lines", help="Show the text of malformed lines (it may hold private data)."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the output if it exists.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the fidelity report as JSON on standard output.")
    ] = False,
) -> None:
    """Record logs as a trace: when requests arrived and how long their texts were, never the texts.

    Arrival is not what most logs write: nginx stamps the end of a request, so its duration is subtracted;
    requests are sorted after all files are read. A fidelity report tells what was found and assumed.

    Examples:

    loadgen record access.log access.log.1 access.log.2.gz --format nginx --path /v1/ -o day.parquet

    loadgen record app.jsonl --time meta.t_recv --input-tokens sizes.prompt --output-tokens sizes.completion

    kubectl logs -f deploy/vllm | loadgen record - --follow --format vllm --year 2026 --zone UTC -o live.parquet

    loadgen record export.csv --time 'Req At' --zone Europe/Berlin --input-tokens 'In Tok'
    """
    lengths = {
        "input_tokens": input_tokens,
        "input_chars": input_chars,
        "input_bytes": input_bytes,
        "output_tokens": output_tokens,
        "output_chars": output_chars,
        "output_bytes": output_bytes,
    }
    selection = Selection(
        since_ns=None if since is None else parse_moment_ns(since, zone, option="--since"),
        until_ns=None if until is None else parse_moment_ns(until, zone, option="--until"),
        statuses=tuple(status or ()),
        models=tuple(model or ()),
        session_share=sample_sessions,
        busiest_ns=None if busiest is None else round(parse_duration_s(busiest, option="--busiest") * 1e9),
    )
    settings = RecordSettings(
        path_prefixes=tuple(path or ()),
        time_field=time_field,
        time_unit=time_unit,
        zone=zone,
        stamp=stamp,
        duration_field=duration_field,
        duration_unit=duration_unit,
        length_fields={column: name for column, name in lengths.items() if name is not None},
        model_field=model_field,
        status_field=status_field,
        session_field=session_field,
        prompt_field=prompt_field,
        prefix_salt=os.urandom(16) if prefix_blocks else None,
        log_format=log_format,
        year=year,
        wrapper=wrapper,
        accept_completion_times=accept_completion_times,
    )
    logs = [location(text) for text in log]
    if output is None and (logs[0] == STDIN or is_remote(logs[0])):
        raise UsageError(f"{log[0]}: say where the trace is to go", hint="give -o TRACE")
    if follow and is_remote(logs[-1]):
        raise UsageError(
            f"{log[-1]}: only a file on this machine can be followed", hint="or give - and pipe it in"
        )
    target = output or default_output(logs[0], ".parquet")
    for source in logs:
        refuse_to_overwrite(target, source, force=force)
    if duration is not None and not follow:
        raise UsageError("--duration is for --follow", hint="--busiest 5m keeps a stretch of a log")
    if follow and ray is not None:
        raise UsageError("--ray reads files that are complete", hint="leave out --follow or --ray")
    if follow:
        fidelity = _follow(Recorder(logs, format_name, settings, selection), logs[-1], target, duration)
    else:
        lean_memory()
        num_workers = workers or os.cpu_count() or 1
        with nullcontext() if ray is None else joined_cluster(ray):
            reader = None if ray is None else import_module("loadgen.record.ray_files").RayFiles()
            if ray is not None and len(logs) > 1 and not free_cpus():
                console.note("the cluster has no CPU free: waiting for one")
            fidelity = _read(logs, format_name, settings, selection, num_workers, target, reader)
    _show(fidelity, show_lines=show_lines)
    console.note(f"{target}: {_one_line(fidelity)}")
    if as_json:
        document = describe(read_trace(target), target)
        document["fidelity"] = fidelity.as_document(show_lines=show_lines)
        console.print_json(document)


def _read(
    logs: list[Path],
    format_name: str,
    settings: RecordSettings,
    selection: Selection,
    num_workers: int,
    target: Path,
    files_reader: FilesReader | None,
) -> Fidelity:
    with ByteProgress("reading", _total_bytes(logs)) as progress:
        recording = record_logs(
            logs,
            format_name,
            settings,
            selection,
            num_workers=num_workers,
            on_bytes=progress.advance,
            files_reader=files_reader,
        )
        with closing(recording):
            return recording.write(target)


def _follow(recorder: Recorder, log: Path, target: Path, duration: str | None) -> Fidelity:
    """Record until the time is over or a signal comes; a second one ends at once, the trace as last written."""
    stop = threading.Event()

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL if number == signal.SIGTERM else signal.default_int_handler)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask_to_stop)
    end_s = None if duration is None else time.monotonic() + parse_duration_s(duration, option="--duration")
    told_s = time.monotonic()
    console.note(f"following {log} into {target}; Ctrl-C ends it")

    def tell(fidelity: Fidelity) -> None:
        nonlocal told_s
        if time.monotonic() - told_s >= _TELL_EVERY_S:
            told_s = time.monotonic()
            console.note(f"{target}: {_one_line(fidelity)}")

    return follow_logs(
        recorder,
        log,
        target,
        stopped=lambda: stop.is_set() or (end_s is not None and time.monotonic() >= end_s),
        on_written=tell,
    )


def _one_line(fidelity: Fidelity) -> str:
    """Requests, span, mean and peak rate, in one line."""
    rate = "no rate" if fidelity.rate_per_s is None else f"{fidelity.rate_per_s:.4g} requests/s"
    return (
        f"{fidelity.num_requests} requests over {format_duration(fidelity.span_s)}, {rate}, "
        f"at most {fidelity.peak_1s} within 1 s"
    )


def _total_bytes(logs: list[Path]) -> int | None:
    try:
        return sum(log.stat().st_size for log in logs) if STDIN not in logs else None
    except Exception:  # of whatever kind: it shows again, named, when the file is opened
        return None


def _show(fidelity: Fidelity, *, show_lines: bool) -> None:
    """The fidelity report, on standard error."""
    err = console.err()

    def line(name: str, text: str) -> None:
        err.print(Text(f"{name:<14}{text}"))

    line(
        "found",
        f"{fidelity.num_requests} requests, {fidelity.num_other} other, {fidelity.num_malformed} malformed "
        f"in {fidelity.num_lines} lines ({fidelity.format_name})",
    )
    line(
        "order",
        f"{fidelity.num_out_of_order} of {fidelity.num_requests} requests stood behind a later arrival; sorted"
        if fidelity.num_out_of_order
        else "as they arrived",
    )
    if fidelity.resolution_ns is not None:
        line("resolution", format_duration(fidelity.resolution_ns / 1e9))
    known = ", ".join(f"{column} {1 - share:.1%}" for column, share in fidelity.missing.items())
    if fidelity.num_duplicates:
        line("duplicates", f"{fidelity.num_duplicates} lines that an earlier file holds, too; left out")
    line("known", f"{known} of the requests" if known else "nothing beside the arrivals")
    for place in fidelity.malformed:
        line("malformed", f"{place.source}:{place.line}: {place.reason}")
        if show_lines:
            line("", place.text)
    for text in fidelity.assumptions:
        line("assumed", text)
    for text in fidelity.warnings:
        line("warning", text)
    line("verdict", fidelity.verdict)
