"""Charts as figures for plotly.js, in plain values. A colour is a place in the page's palette, which has themes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from loadgen.report.chart import Chart, HeatChart, IntervalsChart, Line, LineChart, PartsChart, Shade

_PANEL_PX = 150
_SINGLE_PX = 320
_ROW_PX = 26
# Of the height, between two panels: room for the legend of the lower one.
_GAP_PX = 44
# Above and below all panels: the margins of a figure.
_AROUND_PX = 100
_MAX_LABELLED = 6
# Above the first panel, for the labels of what is shaded.
_LABELS_PX = 16
_GREY = "#8a94a0"  # seen on white and on black
_SYMBOLS = ("circle", "diamond", "square", "x")
# An axis of intervals shows so many times the largest estimate (or band), on each side, at most.
_REACH = 3.0
_DASHES = ("solid", "dash", "dot", "dashdot")


def figure_of(chart: Chart) -> dict[str, Any]:
    """`data` and `layout` of plotly.js, `height_px`, and `is_time` where x is seconds from the run's start.

    Of lines, `around_px` is what of the height is not for panels, `labels_px` the room above them for labels.
    """
    if isinstance(chart, LineChart):
        return _lines(chart)
    if isinstance(chart, HeatChart):
        return _heat(chart)
    if isinstance(chart, IntervalsChart):
        return _intervals(chart)
    assert isinstance(chart, PartsChart)
    return _parts(chart)


def _lines(chart: LineChart) -> dict[str, Any]:
    count = len(chart.panels)
    panel_px = _SINGLE_PX if count == 1 else _PANEL_PX
    height_px = count * panel_px + (count - 1) * _GAP_PX
    labels = _labels(chart.shaded)
    labels_px = _LABELS_PX if labels else 0
    data: list[dict[str, Any]] = []
    layout: dict[str, Any] = {
        "margin": {"l": 58, "r": 14, "t": 40 + labels_px, "b": 60},
        "hovermode": "x unified" if chart.is_time else "closest",
        "hoversubplots": "axis",
        "barmode": "stack",
        "xaxis": {
            "title": {"text": _plain(chart.x_title)},
            "type": "log" if chart.x_is_log else "linear",
            "anchor": f"y{count}" if count > 1 else "y",
            "hoverformat": ".4~g",
        },
        "shapes": _shapes(chart.shaded),
        "annotations": labels,
    }
    if not chart.x_is_log:
        layout["xaxis"]["rangemode"] = "tozero"
    for place, panel in enumerate(chart.panels):
        number = "" if place == 0 else str(place + 1)
        top = 1 - place * (panel_px + _GAP_PX) / height_px
        unit = f" ({panel.unit})" if panel.unit else ""
        layout[f"yaxis{number}"] = {
            "domain": [max(0.0, top - panel_px / height_px), top],
            "type": "log" if panel.is_log else "linear",
            "rangemode": "tozero",
            "hoverformat": ".4~g",
            "nticks": 5 if count > 1 else 8,
        }
        layout[f"legend{number}"] = {
            "orientation": "h", "x": 0, "xanchor": "left", "yanchor": "bottom",
            "y": top if place else 1 + labels_px / height_px,
            "title": {"text": f"<b>{_plain(panel.title + unit)}</b>", "side": "left"},
        }  # fmt: skip
        for order, line in enumerate(panel.lines):
            data.append(_trace(line, order, panel.unit, number))
    return {
        "data": data,
        "layout": layout,
        "height_px": height_px + _AROUND_PX + labels_px,
        "around_px": _AROUND_PX + labels_px,
        "labels_px": labels_px,
        "is_time": chart.is_time,
    }


def _trace(line: Line, order: int, unit: str, axis: str) -> dict[str, Any]:
    trace: dict[str, Any] = {
        "name": _plain(line.name),
        "x": _short(line.x),
        "y": _short(line.y),
        "yaxis": f"y{axis}",
        "legend": f"legend{axis}",
        "showlegend": True,
        "hovertemplate": f"%{{y}} {_plain(unit)}",
    }
    colour = order
    if line.mark == "bars":
        return trace | {"type": "bar", "marker": {"color": colour}}
    trace["type"] = "scatter"
    if line.mark == "dots":
        return trace | {"mode": "markers", "marker": {"color": colour, "size": 4, "opacity": 0.45}}
    # Lines differ in their dashes too, for eyes that do not tell the colours apart.
    stroke = {"color": colour, "width": 1.8, "dash": _DASHES[order % len(_DASHES)]}
    if line.mark == "step":
        stroke["shape"] = "hv"
    if _has_lonely(line.y):
        # A value between two gaps has no line.
        trace |= {"mode": "lines+markers", "marker": {"color": colour, "size": 3}}
    else:
        trace["mode"] = "lines"
    return trace | {"line": stroke, "connectgaps": False}


def _has_lonely(values: Sequence[float | None]) -> bool:
    known = [False, *(value is not None for value in values), False]
    return any(known[i] and not known[i - 1] and not known[i + 1] for i in range(1, len(known) - 1))


def _heat(chart: HeatChart) -> dict[str, Any]:
    edges_s = chart.heat.latency_edges_s
    factor, unit = (1e3, "ms") if edges_s[-1] < 2 else (1.0, "s")
    highest = max(max(row) for row in chart.heat.counts)
    ticks = [10**power for power in range(len(str(highest)))]
    if highest >= 2 * ticks[-1]:
        ticks.append(highest)
    trace = {
        "type": "heatmap",
        "x": _short(chart.heat.time_edges_s),
        "y": _short([edge * factor for edge in edges_s]),
        "z": [_short([math.log10(count) if count else None for count in row]) for row in chart.heat.counts],
        "customdata": [list(row) for row in chart.heat.counts],
        "hovertemplate": f"%{{customdata}} answers<br>%{{y:.4~g}} {unit} at %{{x:.4~g}} s<extra></extra>",
        "hoverongaps": False,
        "colorbar": {
            "title": {"text": "answers", "side": "right"}, "thickness": 10, "tickmode": "array",
            "tickvals": [math.log10(tick) for tick in ticks], "ticktext": [str(tick) for tick in ticks],
        },
    }  # fmt: skip
    layout = {
        "margin": {"l": 58, "r": 14, "t": 20, "b": 60},
        "hovermode": "closest",
        "xaxis": {"title": {"text": "seconds from the start"}, "rangemode": "tozero"},
        "yaxis": {"title": {"text": f"latency ({unit})"}, "type": "log", "nticks": 6},
        "shapes": _shapes(chart.shaded),
        "annotations": _labels(chart.shaded),
    }
    return {"data": [trace], "layout": layout, "height_px": _SINGLE_PX + 90, "is_time": True}


def _parts(chart: PartsChart) -> dict[str, Any]:
    """Each part on a row of its own that begins where the one before it ends: the eye sees that they add up."""
    begins, total = [], 0.0
    for _, value in chart.parts:
        begins.append(total)
        total += value
    names = [_plain(name) for name, _ in chart.parts]
    trace = {
        "type": "bar", "orientation": "h",
        "y": [*names, "= latency"],
        "x": _short([*(value for _, value in chart.parts), total]),
        "base": _short([*begins, 0.0]),
        "marker": {"color": [0] * (len(names) - 1) + [1, 2]},
        "customdata": _short([*(value for _, value in chart.parts), total]),
        "hovertemplate": f"%{{y}}: %{{customdata:.4~g}} {_plain(chart.unit)}<extra></extra>",
    }  # fmt: skip
    layout = {
        "margin": {"l": 10, "r": 14, "t": 20, "b": 50},
        "hovermode": "closest",
        "bargap": 0.25,
        "showlegend": False,
        "xaxis": {"title": {"text": f"mean ({_plain(chart.unit)})"}},
        "yaxis": {"autorange": "reversed", "automargin": True, "type": "category"},
    }
    height_px = _ROW_PX * (len(names) + 1) + 100
    return {"data": [trace], "layout": layout, "height_px": height_px, "is_time": False}


def _intervals(chart: IntervalsChart) -> dict[str, Any]:
    """Bounds are lines and estimates are marks, a colour and a mark a kind; what leaves the axis runs off it."""
    reach = _REACH * max(chart.band, *(abs(span.middle) for span in chart.spans))
    bounds = [bound for span in chart.spans for bound in (span.low, span.high) if bound is not None]
    low, high = max(-reach, min([-chart.band, *bounds])), min(reach, max([chart.band, *bounds]))
    data: list[dict[str, Any]] = []
    for place, kind in enumerate(chart.kinds):
        spans = [span for span in chart.spans if span.kind == kind]
        if not spans:
            continue
        known = [span for span in spans if span.low is not None and span.high is not None]
        data += [
            {
                "type": "scatter", "mode": "lines", "line": {"color": place, "width": 3}, "name": _plain(kind),
                "x": _short(x for span in known for x in (span.low, span.high, None)),
                "y": [y for span in known for y in (_plain(span.label), _plain(span.label), None)],
                "showlegend": False, "legendgroup": str(place), "hoverinfo": "skip", "connectgaps": False,
            },
            {
                "type": "scatter", "mode": "markers", "name": _plain(kind), "legendgroup": str(place),
                "marker": {"color": place, "size": 9, "symbol": _SYMBOLS[place % len(_SYMBOLS)]},
                "x": _short(span.middle for span in spans),
                "y": [_plain(span.label) for span in spans],
                "customdata": [_short((span.low, span.high)) for span in spans],
                "hovertemplate": f"%{{y}}: %{{x:.4~g}} {_plain(chart.unit)}, from %{{customdata[0]:.4~g}} to "
                "%{customdata[1]:.4~g}<extra></extra>",
            },
        ]  # fmt: skip
    names = [_plain(span.label) for span in chart.spans]
    band: dict[str, Any] = {
        "type": "rect", "xref": "x", "yref": "paper", "x0": -chart.band, "x1": chart.band, "y0": 0, "y1": 1,
        "layer": "below", "line": {"width": 0},
    }  # fmt: skip
    layout = {
        "margin": {"l": 10, "r": 14, "t": 40, "b": 50},
        "hovermode": "closest",
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"},
        "xaxis": {
            "title": {"text": f"change ({_plain(chart.unit)})"}, "range": _padded(low, high), "nticks": 8,
            "zeroline": True, "zerolinecolor": _GREY,
        },
        "yaxis": {
            "autorange": "reversed", "automargin": True, "type": "category", "categoryorder": "array",
            "categoryarray": names,
        },
        "shapes": [band],
    }  # fmt: skip
    return {"data": data, "layout": layout, "height_px": _ROW_PX * len(names) + 110, "is_time": False}


def _padded(low: float, high: float) -> list[float | None]:
    room = 0.04 * (high - low)
    return _short((low - room, high + room))


def _shapes(shaded: Sequence[Shade]) -> list[dict[str, Any]]:
    return [
        {
            "type": "rect", "xref": "x", "yref": "paper", "x0": shade.start_s, "x1": shade.end_s, "y0": 0, "y1": 1,
            "layer": "below", "line": {"width": 0},
        }
        for shade in shaded
    ]  # fmt: skip


def _labels(shaded: Sequence[Shade]) -> list[dict[str, Any]]:
    """Above the chart, where no line runs through them; none where there are so many that they would touch."""
    if len(shaded) > _MAX_LABELLED:
        return []
    return [
        {
            "text": _plain(shade.label), "x": (shade.start_s + shade.end_s) / 2, "xref": "x",
            "y": 1, "yref": "paper", "yanchor": "bottom", "showarrow": False, "borderpad": 0, "font": {"size": 10},
        }
        for shade in shaded
    ]  # fmt: skip


def _short(values: Iterable[float | None]) -> list[float | None]:
    """Five digits are more than a plot can show, and a third of the bytes."""
    return [None if value is None else float(f"{value:.5g}") for value in values]


def _plain(text: str) -> str:
    """plotly.js reads some tags in its texts."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
