"""How like one trace is to another, beside what two halves of it and two other draws differ by.

Figures of arrivals (rate, variation of gaps, dispersion, peaks), of lengths (quantiles, rank correlations), of
sessions and prefix blocks, and two-sample Kolmogorov-Smirnov distances. Dispersion over several windows tells
bursts apart that one figure of gaps takes for equal (Gusella, IEEE J-SAC 9, 1991).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadgen.percentiles import nearest_rank
from loadgen.trace.schema import INPUT_COLUMNS, LENGTH_COLUMNS, OUTPUT_COLUMNS
from loadgen.trace.statistics import SECOND_NS, peak_within
from loadgen.trace.trace import Trace

Values = npt.NDArray[np.generic]

RELATIVE, ABSOLUTE, DISTANCE = "relative", "absolute", "distance"
_WINDOWS_S = (1, 10, 60)
_PERCENTS = (50, 90, 99)
# Fewer whole windows tell nothing of a variance.
_LEAST_WINDOWS = 4


@dataclass(frozen=True, slots=True)
class Likeness:
    """One figure of two traces, and how far apart it is. None where a figure does not exist.

    kind: `relative`, differences are shares of the original's value; `absolute`, differences are in the figure's
    unit; `distance`, differences are the greatest distance between two distribution functions, 0 to 1, and there
    is no value. difference: of the synthetic trace from the original, signed save for distances.
    halves, draws: what the first and second half of the original's requests differ by, and what two other draws do.
    """

    name: str
    unit: str
    kind: str
    original: float | None
    synthetic: float | None
    difference: float | None
    halves: float | None
    draws: float | None

    @property
    def is_close(self) -> bool | None:
        """Whether the difference is no larger than that of the halves or the draws; None without either."""
        allowed = [value for value in (self.halves, self.draws) if value is not None]
        if self.difference is None or not allowed:
            return None
        return abs(self.difference) <= max(allowed)


@dataclass(frozen=True, slots=True)
class _Figure:
    name: str
    unit: str
    kind: str
    value: float | None


def likenesses(original: Trace, synthetic: Trace, draws: tuple[Trace, Trace]) -> list[Likeness]:
    """`synthetic` beside `original`, figure by figure; those that `original` has none of are left out.

    draws: two other synthetic traces, to see what chance alone makes.
    """
    halves = _halves(original)
    figures = [list(_figures(trace, original)) for trace in (original, synthetic, *halves, *draws)]
    found = [_compared(list(row)) for row in zip(*figures, strict=True)]
    distances = (
        _distance(name, unit, original, synthetic, halves, draws) for name, unit in _distributions(original)
    )
    return [one for one in (*found, *distances) if one is not None]


def _halves(trace: Trace) -> tuple[Trace, Trace]:
    """The first and the second half of the requests; the request in the middle is in both."""
    middle = trace.num_rows // 2
    rows = trace.num_rows - middle
    return (
        Trace(trace.table.slice(0, rows), trace.metadata),
        Trace(trace.table.slice(middle), trace.metadata),
    )


def _compared(row: list[_Figure]) -> Likeness | None:
    original, synthetic, first, second, draw, other = (figure.value for figure in row)
    if original is None:
        return None
    scale = original if row[0].kind == RELATIVE else 1.0

    def apart(one: float | None, two: float | None) -> float | None:
        return None if one is None or two is None or scale == 0 else (one - two) / scale

    halves, draws = apart(first, second), apart(draw, other)
    return Likeness(
        name=row[0].name,
        unit=row[0].unit,
        kind=row[0].kind,
        original=original,
        synthetic=synthetic,
        difference=apart(synthetic, original),
        halves=None if halves is None else abs(halves),
        draws=None if draws is None else abs(draws),
    )


def _figures(trace: Trace, original: Trace) -> Iterator[_Figure]:
    """The same figures in the same order for every trace; `original` tells which lengths there are."""
    arrival_ns = trace.arrival_ns
    gaps_ns = np.diff(arrival_ns)
    span_s = trace.span_s
    has_span = span_s > 0
    yield _Figure("rate", "/s", RELATIVE, gaps_ns.size / span_s if has_span else None)
    yield _Figure("gap variation", "", RELATIVE, float(gaps_ns.std() / gaps_ns.mean()) if has_span else None)
    yield _Figure("longest gap", "s", RELATIVE, float(gaps_ns.max()) / 1e9 if has_span else None)
    yield _Figure("ties", "share", ABSOLUTE, float(np.mean(gaps_ns == 0)) if gaps_ns.size else None)
    for width_s in _WINDOWS_S:
        value = dispersion(arrival_ns, width_s * SECOND_NS)
        yield _Figure(f"dispersion, {width_s} s", "", RELATIVE, value)
    for width_s in (1, 10):
        peak = float(peak_within(arrival_ns, width_s * SECOND_NS))
        yield _Figure(f"busiest {width_s} s", "requests", RELATIVE, peak)
    yield _Figure("gap serial correlation", "", ABSOLUTE, rank_correlation(gaps_ns[:-1], gaps_ns[1:]))
    for column in _known_lengths(original):
        known = _known(trace, column)
        for percent, value in zip(_PERCENTS, nearest_rank(known, _PERCENTS), strict=True):
            yield _Figure(f"{column} p{percent}", _unit(column), RELATIVE, value)
        yield _Figure(f"{column} mean", _unit(column), RELATIVE, float(known.mean()) if known.size else None)
        serial = rank_correlation(known[:-1], known[1:])
        yield _Figure(f"{column} serial correlation", "", ABSOLUTE, serial)
    yield _Figure("input-output correlation", "", ABSOLUTE, _in_with_out(trace, original))
    yield _Figure("turns of a session", "requests", RELATIVE, _turns(trace))
    yield _Figure("blocks seen before", "share", ABSOLUTE, _seen_before(trace))


def dispersion(arrival_ns: npt.NDArray[np.int64], width_ns: int) -> float | None:
    """Variance / mean of the counts in whole windows from the first arrival; None with fewer than 4 windows."""
    windows = int((arrival_ns[-1] - arrival_ns[0]) // width_ns)
    if windows < _LEAST_WINDOWS:
        return None
    counts = np.bincount((arrival_ns - arrival_ns[0]) // width_ns)[:windows]
    return float(counts.var() / counts.mean())


def rank_correlation(one: Values, other: Values) -> float | None:
    """Spearman's: the correlation of ranks, equal values having their mean rank; None if either never changes."""
    ranks = [_ranks(values) for values in (one, other)]
    if one.size < 3 or any(rank.min() == rank.max() for rank in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def ks_distance(one: Values, other: Values) -> float | None:
    """The greatest distance between the two empirical distribution functions; None if either has no value."""
    if not one.size or not other.size:
        return None
    one, other = np.sort(one), np.sort(other)
    steps = np.concatenate([one, other])
    shares = [np.searchsorted(values, steps, side="right") / values.size for values in (one, other)]
    return float(np.abs(shares[0] - shares[1]).max())


def _ranks(values: Values) -> npt.NDArray[np.float64]:
    _, numbers, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: npt.NDArray[np.float64] = (np.cumsum(counts) - (counts - 1) / 2)[numbers]
    return ranks


def _distributions(original: Trace) -> list[tuple[str, str]]:
    names = [("gap", "s")] if original.num_rows > 1 else []
    return names + [(column, _unit(column)) for column in _known_lengths(original)]


def _distance(
    name: str,
    unit: str,
    original: Trace,
    synthetic: Trace,
    halves: tuple[Trace, Trace],
    draws: tuple[Trace, Trace],
) -> Likeness | None:
    def apart(one: Trace, other: Trace) -> float | None:
        return ks_distance(_values(one, name), _values(other, name))

    return Likeness(
        name=f"{name} KS distance",
        unit=unit,
        kind=DISTANCE,
        original=None,
        synthetic=None,
        difference=apart(original, synthetic),
        halves=apart(*halves),
        draws=apart(*draws),
    )


def _values(trace: Trace, name: str) -> Values:
    return np.diff(trace.arrival_ns) if name == "gap" else _known(trace, name)


def _known_lengths(trace: Trace) -> list[str]:
    return [name for name in LENGTH_COLUMNS if trace.table.column(name).null_count < trace.num_rows]


def _known(trace: Trace, column: str) -> Values:
    values: Values = trace.table.column(column).drop_null().to_numpy()
    return values


def _unit(column: str) -> str:
    return column.rpartition("_")[2]


def _in_with_out(trace: Trace, original: Trace) -> float | None:
    """Over requests of which both are known, in the first unit that `original` has on each side."""
    known = _known_lengths(original)
    sides = [
        next((name for name in names if name in known), None) for names in (INPUT_COLUMNS, OUTPUT_COLUMNS)
    ]
    if None in sides:
        return None
    both = trace.table.select(sides).drop_null()
    return rank_correlation(both.column(0).to_numpy(), both.column(1).to_numpy())


def _turns(trace: Trace) -> float | None:
    """Requests of a session, in the mean of all that have one."""
    sessions = _known(trace, "session")
    return sessions.size / np.unique(sessions).size if sessions.size else None


def _seen_before(trace: Trace) -> float | None:
    """The share of blocks that came before in the trace: what a cache without bounds would hit."""
    blocks = np.asarray(trace.table.column("prefix_blocks").combine_chunks().flatten())
    return 1 - np.unique(blocks).size / blocks.size if blocks.size else None
