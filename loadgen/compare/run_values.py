"""RunValues: the figures of a run, over the twins that succeeded on both sides, and over its own successes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from loadgen.compare.cell import OF_REPORTS, PERCENTILES, Cell
from loadgen.compare.laws import Floats
from loadgen.compare.run_rows import Mask, RunRows
from loadgen.percentiles import nearest_rank
from loadgen.plan.schedule import Window
from loadgen.report.figures import Figure
from loadgen.report.goodput import Bound
from loadgen.report.measures import OVERALL


@dataclass(frozen=True)
class Spans:
    """What the windows of a schedule cover: their kinds (see window_kinds), and how long each is, in s."""

    kinds: dict[str, str]
    durations_s: dict[str, float]

    @classmethod
    def of(cls, windows: Sequence[Window], kinds: dict[str, str]) -> Spans:
        durations_s = {OVERALL: windows[-1].end_ns / 1e9}
        for window in windows:
            name = kinds[window.label]
            durations_s[name] = durations_s.get(name, 0.0) + (window.end_ns - window.start_ns) / 1e9
        return cls(kinds, durations_s)


@dataclass(frozen=True)
class RunValues:
    """Values by cell, float64 (num_cells,), NaN for what the run does not have.

    shared: per-request figures over the requests that succeeded on both sides. own: over its own successes.
    counts: (failures or misses, of how many) of each cell that is a share of requests; NaN for others.
    """

    shared: Floats
    own: Floats
    counts: Floats = field(repr=False)


def run_values(
    rows: RunRows,
    both_ok: Mask,
    cells: Sequence[Cell],
    spans: Spans,
    bounds: Sequence[Bound],
    reported: Mapping[str, Mapping[str, Figure]],
) -> RunValues:
    """The values of one run. both_ok: which requests succeeded on the other side too.

    reported: the figures of its report, by window and metric.
    """
    shared, own = np.full(len(cells), np.nan), np.full(len(cells), np.nan)
    counts = np.full((len(cells), 2), np.nan)
    masks = {cell.window: _in_window(rows, cell.window, spans) for cell in cells}
    for name in dict.fromkeys(cell.metric for cell in cells if cell.statistic is not None):
        values = rows.metric(name)
        for window, mask in masks.items():
            wanted = [
                place
                for place, cell in enumerate(cells)
                if (cell.metric, cell.window) == (name, window) and cell.statistic is not None
            ]
            statistics = [str(cells[place].statistic) for place in wanted]
            own[wanted] = _statistics(values[mask], statistics)
            shared[wanted] = _statistics(values[mask & both_ok], statistics)
    good = rows.is_good(bounds) if bounds else None
    for place, cell in enumerate(cells):
        if cell.statistic is not None:
            continue
        mask = masks[cell.window]
        if cell.metric in OF_REPORTS:
            figure = reported.get(cell.window, {}).get(cell.metric)
            own[place] = figure if isinstance(figure, float) else np.nan
        else:
            own[place], counts[place] = _counted(rows, cell, mask, good, spans)
        shared[place] = own[place]
    return RunValues(shared, own, counts)


def floors(base: Sequence[RunValues], candidate: Sequence[RunValues], cells: Sequence[Cell]) -> Floats:
    """Least standard errors, (num_cells,): what counts alone leave open, even if no run saw a failure.

    Two failures and two successes are added (Agresti and Coull, The American Statistician 52, 1998).
    """
    sides = [np.nansum([values.counts for values in side], axis=0) for side in (base, candidate)]
    hits, total = sides[0][:, 0] + sides[1][:, 0], sides[0][:, 1] + sides[1][:, 1]
    share = (hits + 2) / (total + 4)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.sqrt(share * (1 - share) * (1 / sides[0][:, 1] + 1 / sides[1][:, 1]))
        # A rate goes down by its failures: d log(1 - share) = d share / (1 - share).
        is_ratio = np.array([cell.is_ratio for cell in cells])
        error = np.where(is_ratio, error / (1 - share), error)
    return np.where(np.isfinite(error), error, 0.0)


def _in_window(rows: RunRows, window: str, spans: Spans) -> Mask:
    if window == OVERALL:
        return np.ones(rows.num_requests, dtype=bool)
    wanted = np.array([spans.kinds.get(label) == window for label in rows.labels], dtype=bool)
    return np.asarray(wanted[rows.window_codes], dtype=bool)


def _statistics(values: Floats, names: Sequence[str]) -> Floats:
    known = values[~np.isnan(values)]
    if not known.size:
        return np.full(len(names), np.nan)
    percents = [PERCENTILES[name] for name in names if name in PERCENTILES]
    ranks = dict(zip(percents, nearest_rank(known, percents), strict=True))
    found = [known.mean() if name == "mean" else ranks[PERCENTILES[name]] for name in names]
    return np.asarray(found, dtype=np.float64)


def _counted(
    rows: RunRows, cell: Cell, mask: Mask, good: Mask | None, spans: Spans
) -> tuple[float, tuple[float, float]]:
    """(value, (failures or misses, of how many))."""
    decided = rows.is_decided & mask
    planned = float(mask.sum())
    if cell.metric == "served_rate":
        served, length_s = float((rows.is_ok & mask).sum()), spans.durations_s.get(cell.window, 0.0)
        return (served / length_s if length_s > 0 else np.nan), (planned - served, planned)
    if cell.metric == "goodput":
        if good is None or not planned:
            return np.nan, (np.nan, np.nan)
        met = float((good & mask).sum())
        return met / planned, (planned - met, planned)
    total = float(decided.sum())
    hits = float(((rows.is_rejected if cell.metric == "rejected_share" else ~rows.is_ok) & decided).sum())
    return (hits / total if total else np.nan), (hits, total)
