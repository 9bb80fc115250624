"""Axes: the units, scales and rows that charts and their tables have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from loadgen.durations import format_duration
from loadgen.report.chart import Line

# Rows of a table beside a time line; a row takes several bins.
_MAX_ROWS = 40
# From least to most by this much, a linear axis hides the least.
WIDE = 30.0


def scale(unit: str, series: Sequence[Sequence[float | None]]) -> tuple[float, str]:
    """Factor and unit to draw in: shares as percentages, times in ms where all are below 2 s."""
    if unit == "%":
        return 100.0, "%"
    if unit != "s":
        return 1.0, unit
    most = max((value for values in series for value in values if value is not None), default=0.0)
    return (1e3, "ms") if most < 2 else (1.0, "s")


def times(values: Sequence[float | None], factor: float) -> tuple[float | None, ...]:
    """Each value times `factor`."""
    return tuple(None if value is None else value * factor for value in values)


def is_wide(lines: Sequence[Line]) -> bool:
    """Whether a logarithmic axis shows more."""
    positive = [value for line in lines for value in line.y if value is not None and value > 0]
    return bool(positive) and ratio(positive) > WIDE


def ratio(values: Sequence[float]) -> float:
    """Most over least, of those above 0."""
    positive = np.asarray([value for value in values if value > 0])
    return float(positive.max() / positive.min()) if positive.size else 1.0


def groups(count: int) -> list[tuple[int, int]]:
    """First and end of the bins that a row of a table takes together."""
    size = max(1, -(-count // _MAX_ROWS))
    return [(start, min(start + size, count)) for start in range(0, count, size)]


def highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def shown(value: float | None, unit: str) -> str:
    """As text; `-` where there is none."""
    if value is None:
        return "-"
    forms: dict[str, Callable[[float], str]] = {"s": format_duration, "%": "{:.1%}".format}
    return forms.get(unit, "{:.4g}".format)(value)
