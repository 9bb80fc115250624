"""Change points: where a series of measurements moved to another level and stayed there."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from loadgen.compare.laws import Floats

# A level is made of at least so many runs; one odd run is none.
MIN_RUNS = 3
_PERMUTATIONS = 999
# Orders that are looked at together, and runs of the past that are looked at, for the sake of memory.
_BLOCK = 111
_MAX_RUNS = 150


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
    """Splits of a series, (num_runs,), none missing, in order of time; of a long one, of its last 150 runs.

    The clearest stretch that differs from the rest (largest two-sample t) is kept if fewer than `alpha` of random
    orders have one as clear; then what is left and right of its ends is searched in turn. Circular binary
    segmentation (Olshen and others, Biostatistics 5, 2004): it sees a level that was left and came back, too.
    """
    skipped = max(values.size - _MAX_RUNS, 0)
    recent = values[skipped:]
    edges = sorted(_splits(recent, 0, recent.size, rng, alpha))
    bounds = [0, *(index for index, _ in edges), recent.size]
    return [
        ChangePoint(
            index + skipped,
            float(recent[bounds[place] : index].mean()),
            float(recent[index : bounds[place + 2]].mean()),
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
    firsts, lasts = _stretches(part.size)
    seen = _statistics(part[None, :], firsts, lasts)[0]
    best = int(seen.argmax())
    num_clear = 0
    for _ in range(_PERMUTATIONS // _BLOCK):
        orders = rng.permuted(np.tile(part, (_BLOCK, 1)), axis=1)
        # Rounding must not make an equal order look less clear.
        num_clear += int((_statistics(orders, firsts, lasts).max(axis=1) >= seen[best] * (1 - 1e-9)).sum())
    p = (1 + num_clear) / (_PERMUTATIONS + 1)
    if p > alpha:
        return []
    ends = [start + int(edge) for edge in (firsts[best], lasts[best]) if 0 < edge < part.size]
    bounds = [start, *ends, end]
    found = [(edge, p) for edge in ends]
    for low, high in pairwise(bounds):
        found += _splits(values, low, high, rng, alpha)
    return found


def _stretches(size: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """First (inclusive) and last (exclusive) run of each stretch; what is left on a side is nothing or a level."""
    firsts, lasts = np.triu_indices(size + 1, k=MIN_RUNS)
    rest = size - (lasts - firsts)
    left, right = firsts, size - lasts
    fits = (rest >= MIN_RUNS) & ((left == 0) | (left >= MIN_RUNS)) & ((right == 0) | (right >= MIN_RUNS))
    # A stretch from the start and the one that it leaves to the end are the same split.
    fits &= firsts > 0
    return firsts[fits], lasts[fits]


def _statistics(rows: Floats, firsts: npt.NDArray[np.int64], lasts: npt.NDArray[np.int64]) -> Floats:
    """|t| of each stretch against the rest of its row: (num_rows, num_stretches)."""
    size = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    sums = np.concatenate([np.zeros((rows.shape[0], 1)), centred.cumsum(axis=1)], axis=1)
    inside = sums[:, lasts] - sums[:, firsts]
    count = lasts - firsts
    # The mean of a centred row is 0, so the rest sums to minus the stretch.
    between = inside**2 * (1 / count + 1 / (size - count))
    total = (centred**2).sum(axis=1, keepdims=True)
    within = np.maximum(total - between, 1e-12 * total)
    return np.asarray(np.sqrt(between / (within / (size - 2))), dtype=np.float64)
