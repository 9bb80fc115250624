"""`loadgen trace plot`: a trace's rate, gaps and lengths as a picture, on the terminal or in a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from loadgen.atomic_file import write_text
from loadgen.cli import console
from loadgen.cli.output_file import refuse_to_overwrite
from loadgen.cli.progress import SlowNote
from loadgen.cli.rate_plot import plot_lines, plot_width
from loadgen.cli.share_bars import ShareColumn, share_lines
from loadgen.cli.trace_figures import one_line
from loadgen.durations import format_duration
from loadgen.errors import UsageError
from loadgen.plan.summary import RateBins, bin_moments
from loadgen.report import html, plots
from loadgen.report.trace_charts import charts_of_trace
from loadgen.report.trace_page import as_page
from loadgen.trace.gap_spread import GapBin, GapSpread, gap_spread
from loadgen.trace.length_spread import LengthSpreads, length_spreads
from loadgen.trace.parquet import read_trace
from loadgen.trace.statistics import TraceStatistics, trace_statistics
from loadgen.trace.trace import Trace

_JSON_BINS, _CHART_BINS = 72, 240
# Less of a span has no rate over time.
_SHORTEST_SPAN_S = 1e-3
# Of Poisson, less is 0.0 % and no bar.
_LEAST_SHOWN = 0.0005
_HTML = ".html"
_SUFFIXES = (_HTML, *(f".{form}" for form in plots.FORMATS))


@dataclass(frozen=True, slots=True)
class _Portrait:
    """What is drawn of a trace. notes: why a part is missing."""

    bins: RateBins | None
    gaps: GapSpread | None
    lengths: LengthSpreads | None
    notes: tuple[str, ...]


def plot(
    trace: Annotated[Path, typer.Argument(help="A trace (Parquet, made by loadgen).", metavar="TRACE")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Draw into FILE.html (works offline), .png or .svg instead.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what is drawn as JSON on standard output.")
    ] = False,
) -> None:
    """Draw a trace: its rate over time, its gaps beside those of Poisson arrivals, its lengths."""
    if output is not None:
        _refuse_output(output, trace, force=force)
    with SlowNote(f"{trace.name}: being read and drawn"):
        read = read_trace(trace)
        if output is not None:
            _write(read, trace.name, output)
            console.note(f"{output}: {one_line(read)}")
        if as_json:
            console.print_json(_document(read, trace.name))
        elif output is None:
            _show(read, str(trace))


def _refuse_output(output: Path, trace: Path, *, force: bool) -> None:
    """What can be known before the trace is read."""
    if output.suffix.lower() not in _SUFFIXES:
        raise UsageError(f"{output}: no kind of picture", hint=f"end its name in {', '.join(_SUFFIXES)}")
    refuse_to_overwrite(output, trace, force=force)
    if output.suffix.lower() == _HTML:
        html.require_library()
    else:
        plots.require_library()


def _portrait(trace: Trace, num_bins: int) -> _Portrait:
    notes = []
    bins = None
    if trace.span_s >= _SHORTEST_SPAN_S:
        moments_ns = trace.arrival_ns - trace.arrival_ns[0]
        bins = bin_moments(moments_ns, int(moments_ns[-1]) + 1, ["recorded"] * num_bins)
    else:
        notes.append(f"no rate over time: all of it lies within {format_duration(trace.span_s)}")
    gaps = gap_spread(trace)
    if gaps is None:
        reason = "all requests are at one moment" if trace.num_rows > 1 else "there is one request"
        notes.append(f"no gaps: {reason}")
    lengths = length_spreads(trace)
    if lengths is None:
        notes.append("no lengths: the source logged none")
    return _Portrait(bins, gaps, lengths, tuple(notes))


def _write(trace: Trace, name: str, output: Path) -> None:
    portrait = _portrait(trace, _CHART_BINS)
    charts = charts_of_trace(trace, portrait.bins, portrait.gaps)
    if output.suffix.lower() != _HTML:
        if not charts:
            raise UsageError(f"{name}: nothing to draw ({'; '.join(portrait.notes)})", hint="see trace info")
        plots.write_picture(charts, output)
        return
    page = as_page(name, one_line(trace), charts, [*portrait.notes, *trace.metadata.warnings])
    try:
        write_text(output, page)
    except OSError as exc:
        raise UsageError(f"{output}: cannot be written ({exc.strerror or exc})") from exc


def _document(trace: Trace, name: str) -> dict[str, Any]:
    """Null is what the notes give the reason of."""
    portrait = _portrait(trace, _JSON_BINS)
    curve = None if portrait.bins is None else asdict(portrait.bins)
    if curve is not None:
        del curve["labels"]  # a trace has no windows
    return {
        "trace": name,
        "trace_id": trace.trace_id,
        "requests": trace.num_rows,
        "curve": curve,
        "gaps": None if portrait.gaps is None else asdict(portrait.gaps),
        "lengths": None if portrait.lengths is None else asdict(portrait.lengths),
        "notes": list(portrait.notes),
    }


def _show(trace: Trace, name: str) -> None:
    out = console.out()
    ascii_only = not out.encoding.lower().startswith("utf")
    portrait = _portrait(trace, plot_width(out.width))
    figures = trace_statistics(trace)
    out.print(Text(f"{name}: {one_line(trace)}"))
    blocks: list[list[Text]] = []
    if portrait.bins is not None:
        blocks.append(plot_lines(portrait.bins, ascii_only=ascii_only))
    if portrait.gaps is not None:
        blocks.append(_gap_lines(portrait.gaps, out.width, ascii_only=ascii_only))
    if portrait.lengths is not None:
        blocks.append(_length_lines(portrait.lengths, figures, out.width, ascii_only=ascii_only))
    for lines in blocks:
        out.print()
        for line in lines:
            out.print(line)
    for note in [*portrait.notes, *trace.metadata.warnings]:
        console.note(f"note: {note}")


def _gap_lines(spread: GapSpread, width: int, *, ascii_only: bool) -> list[Text]:
    title = (
        f"gaps: mean {format_duration(spread.mean_s)}, longest {format_duration(spread.longest_s)}; "
        f"variation {spread.cv:.3g} (Poisson {spread.poisson_cv:.3g})"
    )
    labels = ["0 (ties)", *(_gap_label(one) for one in spread.bins)]
    heading = "Poisson of that mean"
    if spread.poisson_tie_share >= _LEAST_SHOWN:
        heading = f"Poisson, stamps of {_edge(spread.step_ns / 1e9)}"
    poisson = (spread.poisson_tie_share, *(one.poisson_share for one in spread.bins))
    columns = (
        ShareColumn("recorded", (spread.tie_share, *(one.share for one in spread.bins))),
        ShareColumn(heading, tuple(share if share >= _LEAST_SHOWN else 0.0 for share in poisson)),
    )
    return [Text(title, style="bold"), *share_lines(labels, columns, width, ascii_only=ascii_only)]


def _gap_label(one: GapBin) -> str:
    if one.until_s is None:
        return f"{_edge(one.from_s)} and more"
    if not one.from_s:
        return f"below {_edge(one.until_s)}"
    return f"{_edge(one.from_s)} to {_edge(one.until_s)}"


def _length_lines(
    spreads: LengthSpreads, figures: TraceStatistics, width: int, *, ascii_only: bool
) -> list[Text]:
    lines = []
    for side in spreads.sides:
        known = figures.lengths[side.column]
        unknown = f"; unknown {known.null_share:.1%}" if known.null_share else ""
        lines.append(
            Text(
                f"{side.column}: p50 {known.p50}, p90 {known.p90}, p99 {known.p99}, max {known.maximum}, "
                f"mean {known.mean:.1f}{unknown}",
                style="bold",
            )
        )
    labels = [
        str(start) if end == start + 1 else f"{start} to {end - 1}"
        for start, end in zip(spreads.bounds[:-1], spreads.bounds[1:], strict=True)
    ]
    columns = [ShareColumn(side.column, side.shares) for side in spreads.sides]
    return [*lines, *share_lines(labels, columns, width, ascii_only=ascii_only)]


def _edge(edge_s: float) -> str:
    """Edges are round numbers: `3 ms`, `200 us`, `5000 s`."""
    for unit, unit_s in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if edge_s >= unit_s:
            return f"{edge_s / unit_s:.6g} {unit}"
    return f"{edge_s * 1e9:.6g} ns"
