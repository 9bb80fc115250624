"""Chart: what is drawn and what it says, apart from the library that draws it. A page and plot files share it."""

from __future__ import annotations

from dataclasses import dataclass, field

from loadgen.report.curves import Heat


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of a chart as text; every row is as long as heads."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Line:
    """y: None where nothing was observed. mark: line, step (a value holds until the next), dots or bars."""

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    mark: str = "line"


@dataclass(frozen=True, slots=True)
class Panel:
    """Lines of one unit; those of a chart stand above each other and share its x."""

    title: str
    unit: str
    lines: tuple[Line, ...]
    is_log: bool = False


@dataclass(frozen=True, slots=True)
class Shade:
    """An injected window: its label, from and until in s."""

    label: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Chart:
    """name: of its file. words: what it shows with its main numbers, for those who do not see it."""

    name: str
    title: str
    words: str
    table: Table


@dataclass(frozen=True, slots=True)
class LineChart(Chart):
    """x: seconds from the run's start where is_time, else in the unit that x_title names."""

    x_title: str
    panels: tuple[Panel, ...]
    is_time: bool = False
    x_is_log: bool = False
    shaded: tuple[Shade, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class HeatChart(Chart):
    heat: Heat
    shaded: tuple[Shade, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Span:
    """An estimate between bounds, in the chart's unit; None for a bound that is not known or means nothing."""

    label: str
    kind: str
    low: float | None
    middle: float
    high: float | None


@dataclass(frozen=True, slots=True)
class IntervalsChart(Chart):
    """A row for each span, over a line at 0. kinds: of spans, in the order of the legend. band: shaded, about 0."""

    unit: str
    spans: tuple[Span, ...]
    kinds: tuple[str, ...]
    band: float


@dataclass(frozen=True, slots=True)
class PartsChart(Chart):
    """One bar of parts that add up; parts: (name, value in unit), in order."""

    unit: str
    parts: tuple[tuple[str, float], ...]
