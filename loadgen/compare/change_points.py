"""Change points: where a series of measurements moved to another level and stayed there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loadgen.compare.laws import Floats

# A level is made of at least so many runs; one odd run is none.
MIN_RUNS = 3
_PERMUTATIONS = 999


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """index: of the first run at the new level. before, after: mean of the levels, in the values' unit.

    p: share of random orders of the same values that have a split at least as clear.
    """

    index: int
    before: float
    after: float
    p: float


def change_points(values: Floats, rng: np.random.Generator, alpha: float = 0.01) -> list[ChangePoint]:
    """Splits of a series, (num_runs,), none missing, in order of time.

    The clearest split (largest two-sample t) is kept if fewer than `alpha` of random orders have one as clear; then
    each half is searched in turn. Binary segmentation with a permutation test, as in E-divisive (Matteson and
    James, JASA 109, 2014), with a t statistic for short series.
    """
    edges = sorted(_splits(values, 0, values.size, rng, alpha))
    bounds = [0, *(index for index, _ in edges), values.size]
    return [
        ChangePoint(
            index,
            float(values[bounds[place] : index].mean()),
            float(values[index : bounds[place + 2]].mean()),
            p,
        )
        for place, (index, p) in enumerate(edges)
    ]


def _splits(
    values: Floats, start: int, end: int, rng: np.random.Generator, alpha: float
) -> list[tuple[int, float]]:
    part = values[start:end]
    if part.size < 2 * MIN_RUNS or np.ptp(part) == 0:
        return []
    seen = _statistics(part[None, :])[0]
    best = int(seen.argmax())
    orders = rng.permuted(np.tile(part, (_PERMUTATIONS, 1)), axis=1)
    # Rounding must not make an equal order look less clear.
    p = (1 + int((_statistics(orders).max(axis=1) >= seen[best] * (1 - 1e-9)).sum())) / (_PERMUTATIONS + 1)
    if p > alpha:
        return []
    index = start + MIN_RUNS + best
    return [
        (index, p),
        *_splits(values, start, index, rng, alpha),
        *_splits(values, index, end, rng, alpha),
    ]


def _statistics(rows: Floats) -> Floats:
    """|t| of each admissible split of each row: (num_rows, num_splits)."""
    size = rows.shape[1]
    left = np.arange(MIN_RUNS, size - MIN_RUNS + 1)
    centred = rows - rows.mean(axis=1, keepdims=True)
    sums = centred.cumsum(axis=1)[:, left - 1]
    # The mean of a centred row is 0, so the right part sums to minus the left one.
    between = sums**2 * (1 / left + 1 / (size - left))
    total = (centred**2).sum(axis=1, keepdims=True)
    within = np.maximum(total - between, 1e-12 * total)
    return np.asarray(np.sqrt(between / (within / (size - 2))), dtype=np.float64)
