"""`loadgen trace`: look at a trace, convert other formats into one, cut a piece of it, draw one like it."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from loadgen.cli import console
from loadgen.durations import format_duration, parse_duration_s
from loadgen.errors import UsageError
from loadgen.trace.foreign.catalog import FORMATS, SERVEGEN, read_foreign, slice_trace
from loadgen.trace.foreign.mooncake import write_mooncake
from loadgen.trace.likeness import DISTANCE, RELATIVE, Likeness, likenesses
from loadgen.trace.location import is_remote, is_url
from loadgen.trace.parquet import read_trace, write_trace
from loadgen.trace.statistics import LengthFigures, TraceStatistics, trace_statistics
from loadgen.trace.synthetic import draw_like
from loadgen.trace.trace import Trace

trace_app = typer.Typer(
    name="trace",
    no_args_is_help=True,
    help="Look at a trace, convert other formats into one, cut a piece of it, draw one like it.",
)

_FORMAT_NAMES = ", ".join([*(known.name for known in FORMATS), SERVEGEN])

TraceArgument = Annotated[Path, typer.Argument(help="A trace (Parquet, made by loadgen).", metavar="TRACE")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the figures as JSON on standard output.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace OUTPUT if it exists.")]


@trace_app.command(epilog="Example: loadgen trace info production.parquet")
def info(trace: TraceArgument, as_json: JsonOption = False) -> None:
    """Tell what a trace holds: requests, rate, peaks, burstiness, lengths, and where it came from."""
    _show(read_trace(trace), trace, as_json=as_json)


@trace_app.command(
    epilog=(
        "Examples: loadgen trace convert AzureLLMInferenceTrace_code.csv   |   "
        "loadgen trace convert mooncake.jsonl.gz -o mooncake.parquet --unit ms   |   "
        "loadgen trace convert production.parquet --to mooncake -o production.jsonl"
    )
)
def convert(
    source: Annotated[
        Path,
        typer.Argument(
            help="A public trace (plain, gz, bz2, xz, zst; a folder of ServeGen), or a trace.",
            metavar="SOURCE",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write. Default: beside, .parquet.")
    ] = None,
    format_name: Annotated[
        str, typer.Option("--format", help=f"Format of SOURCE: auto, {_FORMAT_NAMES}.")
    ] = "auto",
    unit: Annotated[
        str | None, typer.Option(help="Unit of bare stamps: s, ms, us, ns. Default: by the format.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of what is drawn (servegen).")] = 0,
    to: Annotated[str, typer.Option(help="Format to write: trace, or mooncake (from a trace).")] = "trace",
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Convert a public trace into a loadgen trace, or a loadgen trace into Mooncake JSONL.

    The unit of the stamps and the resulting span and rate are told, so that a wrong unit is seen at once.
    """
    if to not in ("trace", "mooncake"):
        raise UsageError(f"--to is {to!r}", hint="give trace or mooncake")
    target = output or default_output(source, ".parquet" if to == "trace" else ".jsonl")
    refuse_to_overwrite(target, source, force=force)
    if to == "mooncake":
        trace = read_trace(source)
        notes = write_mooncake(trace, target)
    else:
        trace = read_foreign(source, format_name=format_name, unit=unit, seed=seed)
        write_trace(trace, target)
        notes = trace.metadata.warnings
    if as_json:
        console.print_json(describe(trace, target))
        return
    console.note(f"{target}: {one_line(trace)}")
    unit_used = trace.metadata.recorder.get("unit")
    if unit_used and to == "trace":
        console.note(f"stamps were read as {unit_used}; if the span looks wrong, give --unit")
    for note in notes:
        console.note(f"note: {note}")


@trace_app.command(name="slice", epilog="Example: loadgen trace slice day.parquet --start 9h --duration 5m")
def slice_(
    trace: TraceArgument,
    output: Annotated[Path, typer.Option("-o", "--output", help="Where to write the piece.")],
    start: Annotated[
        str, typer.Option(help="Where the piece begins, from the first request: 90s, 2h.")
    ] = "0",
    duration: Annotated[str | None, typer.Option(help="How long it is. Default: to the end.")] = None,
    force: ForceOption = False,
) -> None:
    """Cut a piece of a trace into a new one; arrivals are counted anew from its first request."""
    refuse_to_overwrite(output, trace, force=force)
    piece = slice_trace(
        read_trace(trace),
        parse_duration_s(start, option="--start"),
        None if duration is None else parse_duration_s(duration, option="--duration"),
    )
    write_trace(piece, output)
    console.note(f"{output}: {one_line(piece)}")


@trace_app.command(
    epilog=(
        "Examples: loadgen trace synth --like production.parquet --seed 7   |   "
        "loadgen trace synth --like production.parquet --duration 5m -o short.parquet --json"
    )
)
def synth(
    like: Annotated[Path, typer.Option(help="The trace to draw one like.", metavar="TRACE")],
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws another trace.")] = 0,
    duration: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long it is: 5m. Default: as long as TRACE.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Where to write. Default: beside TRACE.")
    ] = None,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Draw a new trace with the arrivals and lengths of a given one, and tell how close it is.

    Pieces of the trace are drawn near their place and joined, so that bursts, silences and the rate curve stay.
    """
    target = output or default_output(like, f"-synth-{seed}.parquet")
    refuse_to_overwrite(target, like, force=force)
    duration_s = None if duration is None else parse_duration_s(duration, option="--duration")
    original = read_trace(like)
    synthetic, *draws = (draw_like(original, seed=seed + more, duration_s=duration_s) for more in range(3))
    figures = likenesses(original, synthetic, (draws[0], draws[1]))
    write_trace(synthetic, target)
    if as_json:
        console.print_json(
            {
                "trace": target.name,
                "trace_id": synthetic.trace_id,
                "requests": synthetic.num_rows,
                "like": like.name,
                "drawn": synthetic.metadata.recorder,
                "figures": [asdict(figure) | {"is_close": figure.is_close} for figure in figures],
                "warnings": synthetic.metadata.warnings,
            }
        )
        return
    console.note(f"{target}: {one_line(synthetic)}")
    console.out().print(_likeness_table(figures))
    console.note(
        "halves: what the two halves of the original's requests differ by; draws: what seeds "
        f"{seed + 1} and {seed + 2} do. A * is further off than either. Correlations are of ranks."
    )
    for warning in synthetic.metadata.warnings:
        console.note(f"note: {warning}")


def default_output(source: Path, suffix: str) -> Path:
    """Beside `source`, under its name with its endings replaced by `suffix`."""
    stem = source.name
    for ending in (".gz", ".bz2", ".xz", ".zst", ".csv", ".jsonl", ".json", ".log", ".parquet"):
        stem = stem.removesuffix(ending)
    return source.with_name(stem + suffix)


def refuse_to_overwrite(target: Path, source: Path, *, force: bool) -> None:
    """Raise UsageError if `target` exists and is not to be replaced, is the source itself, or can be no file."""
    if is_url(target):
        raise UsageError(f"{target}: a URL", hint="give a file of this machine with -o, and copy it there")
    folder = next((parent for parent in target.parents if parent.exists()), None)
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{target}: {folder} is no folder", hint="give another name with -o")
    if target.exists() and not target.is_file():
        kind = "a folder" if target.is_dir() else "no file"
        raise UsageError(f"{target}: is {kind}", hint="give the name of a file with -o")
    if target.exists():
        if not is_remote(source) and source.exists() and target.samefile(source):
            raise UsageError(f"{target}: is the source itself", hint="give another name with -o")
        if not force:
            raise UsageError(f"{target}: exists already", hint="give another name with -o, or --force")


def one_line(trace: Trace) -> str:
    """Requests, span, mean and peak rate, in one line."""
    figures = trace_statistics(trace)
    rate = "no rate" if figures.rate_per_s is None else f"{figures.rate_per_s:.4g} requests/s"
    return (
        f"{figures.rows} requests over {format_duration(figures.span_s)}, {rate}, "
        f"at most {figures.peak_1s_sliding} within 1 s"
    )


def describe(trace: Trace, path: Path) -> dict[str, Any]:
    """Figures and metadata as one JSON-ready document."""
    figures = asdict(trace_statistics(trace))
    short = {"minimum": "min", "maximum": "max"}
    lengths = {
        column: {short.get(name, name): value for name, value in of_column.items()}
        for column, of_column in figures.pop("lengths").items()
    }
    return {
        "trace": path.name,
        "trace_id": trace.trace_id,
        **figures,
        "lengths": lengths,
        "metadata": asdict(trace.metadata),
    }


def _show(trace: Trace, path: Path, *, as_json: bool) -> None:
    if as_json:
        console.print_json(describe(trace, path))
        return
    figures = trace_statistics(trace)
    out = console.out()
    out.print(Text(f"{path}: {one_line(trace)}"))
    out.print()
    out.print(_facts(trace, figures))
    out.print(_lengths(figures.lengths))
    for warning in trace.metadata.warnings:
        out.print(Text(f"note: {warning}"))


def _facts(trace: Trace, figures: TraceStatistics) -> Table:
    metadata = trace.metadata
    facts = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    facts.add_column(no_wrap=True)
    facts.add_column(overflow="fold")

    def add(name: str, value: str) -> None:
        facts.add_row(Text(name), Text(value))

    add(
        "peak, 1 s",
        f"{figures.peak_1s_fixed} counted from the first, {figures.peak_1s_sliding} in any window",
    )
    add("gap variation", f"{_number(figures.gap_cv)} (standard deviation / mean; 1 = Poisson)")
    add("dispersion, 1 s", f"{_number(figures.dispersion_1s)} (variance / mean of counts; 1 = Poisson)")
    add("ties", f"{figures.ties} requests at the very moment of the one before")
    add("first arrival", _moment(metadata.origin_unix_ns))
    add("arrival from", f"{metadata.arrival_from} (the stamp marks {metadata.stamp_marks})")
    if metadata.resolution_ns is not None:
        add("resolution", format_duration(metadata.resolution_ns / 1e9))
    if metadata.zone is not None:
        add("zone assumed", metadata.zone)
    if metadata.counts:
        add("counts", ", ".join(f"{name} {value}" for name, value in metadata.counts.items()))
    for source in metadata.sources:
        add("source", f"{source.name} ({source.bytes} bytes)")
    add("trace id", trace.trace_id)
    return facts


def _lengths(lengths: dict[str, LengthFigures]) -> Table:
    table = Table(title=None)
    table.add_column("length")
    for heading in ("min", "p50", "p90", "p99", "max", "mean", "missing"):
        table.add_column(heading, justify="right")
    for column, row in lengths.items():
        values = [str(value) for value in (row.minimum, row.p50, row.p90, row.p99, row.maximum)]
        table.add_row(column, *values, f"{row.mean:.1f}", f"{row.null_share:.1%}")
    return table


def _likeness_table(figures: list[Likeness]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("figure", no_wrap=True)
    for heading in ("original", "synthetic", "off by", "halves", "draws"):
        table.add_column(heading, justify="right", no_wrap=True)
    for figure in figures:
        mark = "*" if figure.is_close is False else " "
        table.add_row(
            Text(figure.name),
            "" if figure.kind == DISTANCE else _number(figure.original),
            "" if figure.kind == DISTANCE else _number(figure.synthetic),
            _apart(figure.difference, figure.kind, is_signed=figure.kind != DISTANCE) + mark,
            _apart(figure.halves, figure.kind),
            _apart(figure.draws, figure.kind),
        )
    return table


def _apart(value: float | None, kind: str, *, is_signed: bool = False) -> str:
    if value is None:
        return "none"
    sign = "+" if is_signed else ""
    return f"{value:{sign}.1%}" if kind == RELATIVE else f"{value:{sign}.3f}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.4g}"


def _moment(unix_ns: int | None) -> str:
    if unix_ns is None:
        return "not known (relative times)"
    seconds, rest_ns = divmod(unix_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest_ns:09d} UTC"
