"""Which foreign formats there are, and a foreign file -> Trace."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import loadgen
from loadgen.errors import TraceError, UsageError
from loadgen.trace.assemble import assemble_trace, finest_step_ns
from loadgen.trace.foreign.aiperf import AiperfFormat
from loadgen.trace.foreign.azure import AzureFormat
from loadgen.trace.foreign.bailian import BailianFormat
from loadgen.trace.foreign.burstgpt import BurstGptFormat
from loadgen.trace.foreign.evalscope import EvalscopeFormat
from loadgen.trace.foreign.foreign_format import ForeignFormat, ForeignRequests
from loadgen.trace.foreign.llmservingsim import LlmServingSimFormat
from loadgen.trace.foreign.mooncake import MooncakeFormat
from loadgen.trace.foreign.servegen import read_servegen, servegen_source
from loadgen.trace.foreign.splitwise_sim import SplitwiseSimFormat
from loadgen.trace.foreign.vidur import VidurFormat
from loadgen.trace.moments import UNIT_NS
from loadgen.trace.source_stream import SourceStream
from loadgen.trace.trace import SourceFile, Trace, TraceMetadata

FORMATS: tuple[ForeignFormat, ...] = (
    AzureFormat(),
    AiperfFormat(),
    BailianFormat(),
    EvalscopeFormat(),
    MooncakeFormat(),
    VidurFormat(),
    LlmServingSimFormat(),
    SplitwiseSimFormat(),
    BurstGptFormat(),
)
# A folder, where the others are files.
SERVEGEN = "servegen"
_LINES_LOOKED_AT = 20
# How a Parquet file begins.
_PARQUET = "PAR1"


def read_foreign(path: Path, *, format_name: str = "auto", unit: str | None = None, seed: int = 0) -> Trace:
    """The foreign trace in `path` (plain or compressed) as a Trace; a folder is a ServeGen client set.

    unit: s, ms, us or ns of bare numbers, where the format's own unit is not to be taken. seed: of what is drawn.
    Raises UsageError for an unknown format or unit, TraceError if the file is of no known format,
    holds no request or a value that is none.
    """
    if unit is not None and unit not in UNIT_NS:
        raise UsageError(f"--unit is {unit!r}", hint=f"give one of {', '.join(UNIT_NS)}")
    try:
        if path.is_dir() or format_name == SERVEGEN:
            name = SERVEGEN
            if not path.is_dir():
                raise TraceError("no folder", hint="a ServeGen client set is a folder of chunk-N-trace.csv")
            requests = read_servegen(path, seed)
            sources: tuple[SourceFile, ...] = (servegen_source(path),)
        else:
            name, sources, requests = _read_file(path, format_name, unit)
        if not requests.moments_ns.size:
            raise TraceError("0 requests in the file")
        return assemble_trace(
            requests.moments_ns,
            requests.columns,
            TraceMetadata(
                origin_unix_ns=0 if requests.has_epoch else None,
                stamp_marks="arrival",
                arrival_from=requests.arrival_from,
                resolution_ns=finest_step_ns(requests.moments_ns),
                zone=requests.zone,
                sources=sources,
                recorder={
                    "version": loadgen.__version__,
                    "format": name,
                    "unit": requests.unit,
                    **({"seed": seed} if name == SERVEGEN else {}),
                },
                counts={"requests": int(requests.moments_ns.size)},
                warnings=requests.notes,
                prefix_block_tokens=requests.prefix_block_tokens,
            ),
        )
    except TraceError as error:
        if error.message.startswith(f"{path}: "):
            raise
        raise TraceError(f"{path}: {error.message}", hint=error.hint) from error


def _read_file(
    path: Path, format_name: str, unit: str | None
) -> tuple[str, tuple[SourceFile, ...], ForeignRequests]:
    chosen = None if format_name == "auto" else _named(format_name)
    stream = SourceStream(path, error=TraceError)
    text = stream.text()
    if not text.strip():
        raise TraceError("the file is empty: 0 requests")
    source_format = chosen or _recognised(text)
    requests = source_format.read(text, unit=unit)
    assert stream.source_file is not None
    return source_format.name, (stream.source_file,), requests


def slice_trace(trace: Trace, start_s: float, duration_s: float | None) -> Trace:
    """The requests from `start_s` after the first on, for `duration_s` (None: to the end).

    Arrivals are counted anew from the first that is kept. Raises TraceError if none is.
    """
    arrivals = trace.arrival_ns - trace.arrival_ns[0]
    start_ns = round(start_s * 1e9)
    keep = arrivals >= start_ns
    if duration_s is not None:
        keep &= arrivals < start_ns + round(duration_s * 1e9)
    table = trace.table.filter(keep)
    if table.num_rows == 0:
        raise TraceError(
            f"0 of {trace.num_rows} requests lie within the slice; the trace is {trace.span_s:.3f} s long",
            hint="give --start and --duration within it",
        )
    columns = {name: table.column(name) for name in table.schema.names if name != "arrival_ns"}
    moments_ns = table.column("arrival_ns").to_numpy() + (trace.metadata.origin_unix_ns or 0)
    counts = {**trace.metadata.counts, "requests": table.num_rows}
    return assemble_trace(moments_ns, columns, replace(trace.metadata, counts=counts))


def _named(name: str) -> ForeignFormat:
    for known in FORMATS:
        if known.name == name:
            return known
    names = ", ".join([*(known.name for known in FORMATS), SERVEGEN])
    raise UsageError(f"--format is {name!r}", hint=f"give auto, {names}")


def _recognised(text: str) -> ForeignFormat:
    if text.startswith(_PARQUET):
        raise TraceError(
            "a Parquet file, and none of the formats that are converted",
            hint="a trace of loadgen is looked at with `loadgen trace info`, and converted with --to mooncake; "
            "a table is recorded with `loadgen record --format parquet`",
        )
    head = _first_lines(text)
    for known in FORMATS:
        if known.looks_like(head):
            return known
    raise TraceError(
        f"none of the known trace formats ({', '.join(known.name for known in FORMATS)})",
        hint="for a log or a table of your own use `loadgen record --format csv` or `--format jsonl`",
    )


def _first_lines(text: str) -> str:
    """Whole lines, however long: a line may hold a prompt."""
    end = 0
    for _ in range(_LINES_LOOKED_AT):
        end = text.find("\n", end) + 1
        if end == 0:
            return text
    return text[:end]
