"""What a trace is like, in figures: rate, peaks, burstiness, lengths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadgen.percentiles import nearest_rank
from loadgen.trace.schema import LENGTH_COLUMNS
from loadgen.trace.trace import Trace

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class LengthFigures:
    """One length column: values by nearest rank, the mean, and the share of rows that lack it."""

    minimum: int
    p50: int
    p90: int
    p99: int
    maximum: int
    mean: float
    null_share: float


@dataclass(frozen=True, slots=True)
class TraceStatistics:
    """Figures of a trace. None where a figure does not exist (no gap, no span), never 0 in its place.

    rate_per_s: (rows - 1) / span. peak_1s_fixed: most arrivals in one second counted from the first row.
    peak_1s_sliding: most arrivals in any window of 1 s. gap_cv: standard deviation / mean of the gaps
    (population; 1 = Poisson). dispersion_1s: variance / mean of the counts per second from the first row
    (1 = Poisson). ties: gaps of exactly 0. lengths: columns that hold at least one value.
    """

    rows: int
    span_s: float
    rate_per_s: float | None
    peak_1s_fixed: int
    peak_1s_sliding: int
    gap_cv: float | None
    dispersion_1s: float | None
    ties: int
    lengths: dict[str, LengthFigures]


def trace_statistics(trace: Trace) -> TraceStatistics:
    """The figures of `trace`."""
    arrival_ns = trace.arrival_ns
    gaps_ns = np.diff(arrival_ns)
    span_s = trace.span_s
    # Only seconds with arrivals are held: one stamp of 1970 among others makes a span of half a century.
    seconds, counts = np.unique((arrival_ns - arrival_ns[0]) // SECOND_NS, return_counts=True)
    return TraceStatistics(
        rows=trace.num_rows,
        span_s=span_s,
        rate_per_s=(trace.num_rows - 1) / span_s if span_s > 0 else None,
        peak_1s_fixed=int(counts.max()),
        peak_1s_sliding=peak_within(arrival_ns, SECOND_NS),
        gap_cv=float(gaps_ns.std() / gaps_ns.mean()) if span_s > 0 else None,
        dispersion_1s=_dispersion(counts, int(seconds[-1]) + 1),
        ties=int(np.count_nonzero(gaps_ns == 0)),
        lengths={
            column: figures
            for column in LENGTH_COLUMNS
            if (figures := _length_figures(trace, column)) is not None
        },
    )


def peak_within(arrival_ns: npt.NDArray[np.int64], width_ns: int) -> int:
    """Most arrivals in any half-open window [t, t + width_ns); `arrival_ns` ascending."""
    ends = np.searchsorted(arrival_ns, arrival_ns + width_ns, side="left")
    return int((ends - np.arange(arrival_ns.size)).max(initial=0))


def _dispersion(counts: npt.NDArray[np.int64], num_bins: int) -> float | None:
    """Variance / mean of `num_bins` counts, of which `counts` are those that are not 0; None for one bin."""
    if num_bins < 2:
        return None
    mean = float(counts.sum()) / num_bins
    square_sum = float(((counts - mean) ** 2).sum()) + (num_bins - counts.size) * mean**2
    return square_sum / num_bins / mean


def _length_figures(trace: Trace, column: str) -> LengthFigures | None:
    known = trace.table.column(column).drop_null().to_numpy()
    if known.size == 0:
        return None
    ranks = [int(value) for value in nearest_rank(known, [0, 50, 90, 99, 100]) if value is not None]
    minimum, p50, p90, p99, maximum = ranks
    return LengthFigures(
        minimum=minimum,
        p50=p50,
        p90=p90,
        p99=p99,
        maximum=maximum,
        mean=float(known.mean()),
        null_share=1 - known.size / trace.num_rows,
    )
