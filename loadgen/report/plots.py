"""Charts as picture files, drawn by matplotlib. The one module that knows it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from loadgen.atomic_file import replacing
from loadgen.errors import UsageError
from loadgen.report.chart import Chart, HeatChart, LineChart, PartsChart, Shade

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, FigureBase

# Endings of picture files.
FORMATS = ("png", "svg")
_WIDTH_IN, _PANEL_IN, _SINGLE_IN = 9.0, 1.6, 4.0
_DPI = 120
_COLOURS = ("#0550ae", "#bc4c00", "#1a7f37", "#8250df", "#a40e26", "#57606a", "#0a7ea4", "#9a6700")
_DASHES = ("-", "--", ":", "-.")
_SHADE = "#d47800"
# Of a run's charts, so that the same run makes the same bytes.
_SETTINGS: Any = {"svg.hashsalt": "loadgen", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
             "grid.color": "#e4e8ec", "axes.spines.top": False, "axes.spines.right": False}  # fmt: skip


def require_library() -> None:
    """Raises UsageError where matplotlib is not installed: before the work, not after."""
    try:
        import matplotlib  # noqa: F401, PLC0415 - an extra
    except ImportError as exc:
        raise UsageError(
            "plots (.png, .svg) need the package matplotlib", hint="pip install 'loadgen[plots]'"
        ) from exc


def write_plots(charts: Sequence[Chart], folder: Path) -> list[Path]:
    """Write each chart as NAME.png and NAME.svg into `folder`, which is made; the words go in as description.

    Raises UsageError where matplotlib is not installed or the folder refuses.
    """
    return [
        path
        for chart in charts
        for path in _write([chart], [folder / f"{chart.name}.{form}" for form in FORMATS])
    ]


def write_picture(charts: Sequence[Chart], path: Path) -> None:
    """Write `charts` below each other as one picture, of the form that the ending of `path` names (FORMATS).

    Raises UsageError where matplotlib is not installed or the file cannot be written.
    """
    _write(charts, [path])


def _write(charts: Sequence[Chart], paths: Sequence[Path]) -> Sequence[Path]:
    require_library()
    import matplotlib as mpl  # noqa: PLC0415 - an extra

    with mpl.rc_context(_SETTINGS):
        figure = _figure(charts)
        for path in paths:
            form = path.suffix[1:].lower()
            try:
                with replacing(path) as aside:
                    figure.savefig(aside, format=form, dpi=_DPI, metadata=_metadata(charts, form))
            except OSError as exc:
                raise UsageError(f"{path}: cannot be written ({exc.strerror or exc})") from exc
    return paths


def _metadata(charts: Sequence[Chart], form: str) -> dict[str, Any]:
    known: dict[str, Any] = {
        "Title": "; ".join(chart.title for chart in charts),
        "Description": " ".join(chart.words for chart in charts),
    }
    return known | ({"Date": None} if form == "svg" else {})


def _figure(charts: Sequence[Chart]) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415 - an extra

    heights_in = [_height_in(chart) for chart in charts]
    figure = Figure(figsize=(_WIDTH_IN, sum(heights_in)), layout="constrained")
    parts = figure.subfigures(len(charts), 1, squeeze=False, height_ratios=heights_in)[:, 0]
    for chart, part in zip(charts, parts, strict=True):
        _draw(chart, part)
    return figure


def _num_panels(chart: Chart) -> int:
    return len(chart.panels) if isinstance(chart, LineChart) else 1


def _height_in(chart: Chart) -> float:
    count = _num_panels(chart)
    return _SINGLE_IN if count == 1 else 0.8 + count * _PANEL_IN


def _draw(chart: Chart, figure: FigureBase) -> None:
    axes: list[Axes] = list(np.atleast_1d(figure.subplots(_num_panels(chart), 1, sharex=True)))
    if isinstance(chart, LineChart):
        _lines(chart, axes)
    elif isinstance(chart, HeatChart):
        _heat(chart, figure, axes[0])
    else:
        assert isinstance(chart, PartsChart)
        _parts(chart, axes[0])
    figure.suptitle(_literal(chart.title), fontsize=11, fontweight="bold", x=0.01, ha="left")


def _lines(chart: LineChart, axes: Sequence[Axes]) -> None:
    for panel, axis in zip(chart.panels, axes, strict=True):
        stacked: dict[float, float] = {}
        for order, line in enumerate(panel.lines):
            colour, name = _COLOURS[order % len(_COLOURS)], _literal(line.name)
            y = np.array([np.nan if value is None else value for value in line.y])
            if line.mark == "dots":
                axis.plot(line.x, y, ".", color=colour, alpha=0.4, markersize=3, label=name)
            elif line.mark == "bars":
                below = [stacked.get(x, 0.0) for x in line.x]
                width = line.x[1] - line.x[0] if len(line.x) > 1 else 1.0
                axis.bar(line.x, y, width=width, bottom=below, color=colour, label=name)
                stacked = {x: base + value for x, base, value in zip(line.x, below, y, strict=True)}
            else:
                axis.plot(
                    line.x, y, color=colour, linestyle=_DASHES[order % len(_DASHES)], linewidth=1.2, label=name,
                    marker="." if len(line.x) == 1 else None,
                    drawstyle="steps-post" if line.mark == "step" else "default",
                )  # fmt: skip
        axis.set_title(f"{panel.title} ({panel.unit})", loc="left", fontsize=9)
        if panel.is_log:
            axis.set_yscale("log")
        else:
            axis.set_ylim(bottom=0)
        if chart.x_is_log:
            axis.set_xscale("log")
        elif chart.is_time:
            axis.set_xlim(left=0)
        _shade(axis, chart.shaded)
        axis.legend(
            loc="lower right", bbox_to_anchor=(1, 1), fontsize=8, frameon=False, ncols=4, borderaxespad=0.1
        )
    axes[-1].set_xlabel(_literal(chart.x_title))


def _heat(chart: HeatChart, figure: FigureBase, axis: Axes) -> None:
    from matplotlib.colors import LogNorm  # noqa: PLC0415 - an extra

    counts = np.array(chart.heat.counts, dtype=np.float64)
    counts[counts == 0] = np.nan
    drawn = axis.pcolormesh(
        chart.heat.time_edges_s,
        chart.heat.latency_edges_s,
        counts,
        norm=LogNorm(1, max(2.0, float(np.nanmax(counts)))),
        cmap="cividis",
        rasterized=True,
    )
    axis.set_yscale("log")
    axis.set_xlabel("seconds from the start")
    axis.set_ylabel("latency (s)")
    _shade(axis, chart.shaded)
    figure.colorbar(drawn, ax=axis, label="answers")


def _parts(chart: PartsChart, axis: Axes) -> None:
    begins, total = [], 0.0
    for _, value in chart.parts:
        begins.append(total)
        total += value
    names = [*(_literal(name) for name, _ in chart.parts), "= latency"]
    colours = [_COLOURS[0]] * (len(names) - 2) + [_COLOURS[1], _COLOURS[2]]
    axis.barh(names, [*(value for _, value in chart.parts), total], left=[*begins, 0.0], color=colours)
    axis.invert_yaxis()
    axis.set_xlabel(f"mean ({chart.unit})")


def _shade(axis: Axes, shaded: Sequence[Shade]) -> None:
    for shade in shaded:
        axis.axvspan(shade.start_s, shade.end_s, color=_SHADE, alpha=0.15, linewidth=0)


def _literal(text: str) -> str:
    """Without the sign that begins a formula."""
    return text.replace("$", r"\$")
