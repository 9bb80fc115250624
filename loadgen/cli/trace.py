"""`loadgen trace`: look at a trace, convert other formats into one, cut a piece of it, draw one like it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from loadgen.cli import console
from loadgen.cli.output_file import default_output, refuse_to_overwrite
from loadgen.cli.trace_figures import describe, number, one_line, show_info
from loadgen.cli.trace_plot import plot
from loadgen.durations import parse_duration_s
from loadgen.errors import UsageError
from loadgen.trace.foreign.catalog import FORMATS, SERVEGEN, read_foreign, slice_trace
from loadgen.trace.foreign.mooncake import write_mooncake
from loadgen.trace.likeness import DISTANCE, RELATIVE, Likeness, likenesses
from loadgen.trace.parquet import read_trace, write_trace
from loadgen.trace.synthetic import draw_like

trace_app = typer.Typer(
    name="trace",
    no_args_is_help=True,
    help="Look at a trace, plot it, convert other formats into one, cut a piece of it, draw one like it.",
)

_FORMAT_NAMES = ", ".join([*(known.name for known in FORMATS), SERVEGEN])

TraceArgument = Annotated[Path, typer.Argument(help="A trace (Parquet, made by loadgen).", metavar="TRACE")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the figures as JSON on standard output.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace OUTPUT if it exists.")]


@trace_app.command(epilog="Example: loadgen trace info production.parquet")
def info(trace: TraceArgument, as_json: JsonOption = False) -> None:
    """Tell what a trace holds: requests, rate, peaks, burstiness, lengths, and where it came from."""
    show_info(read_trace(trace), trace, as_json=as_json)


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
        console.note(
            f"stamps were read as {unit_used}" + ("" if unit else "; if the span looks wrong, give --unit")
        )
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


trace_app.command(
    epilog=(
        "Examples: loadgen trace plot production.parquet   |   loadgen trace plot production.parquet -o day.html"
    )
)(plot)


def _likeness_table(figures: list[Likeness]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("figure", no_wrap=True)
    for heading in ("original", "synthetic", "off by", "halves", "draws"):
        table.add_column(heading, justify="right", no_wrap=True)
    for figure in figures:
        mark = "*" if figure.is_close is False else " "
        table.add_row(
            Text(figure.name),
            "" if figure.kind == DISTANCE else number(figure.original),
            "" if figure.kind == DISTANCE else number(figure.synthetic),
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
