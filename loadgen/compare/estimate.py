"""Estimate: how much a figure changed from base to candidate, with its standard error, for many figures at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadgen.compare.laws import Floats

# Below this no spread is believed: clocks and percentiles have steps of their own.
_LEAST_SPREAD = 1e-9


@dataclass(frozen=True, slots=True)
class Estimate:
    """Changes of many cells; all float64 (num_cells,), NaN where there is too little to tell.

    change: log ratio or difference, candidate against base. error: its standard error. df: degrees of freedom of
    the error; 0 where the noise is not known. count: pairs (or runs of the smaller side) that it stands on.
    correlation: (num_cells, num_cells), of the cells' noise; None where too few runs tell it.
    """

    change: Floats
    error: Floats
    df: Floats
    count: npt.NDArray[np.int64]
    correlation: Floats | None


def paired(differences: Floats, floor: Floats, noise: Floats | None = None) -> Estimate:
    """From the change within each pair: float64 (num_pairs, num_cells), NaN where one side has no value.

    floor: (num_cells,), least standard error, from what counts alone leave open. noise: changes within pairs of
    runs of one version, (num_noise_pairs, num_cells): their mean is 0 by nature, so each adds one degree of
    freedom.
    """
    known = ~np.isnan(differences)
    count = known.sum(axis=0)
    change = _mean(differences, count)
    squares = np.where(known, (np.nan_to_num(differences) - np.nan_to_num(change)) ** 2, 0.0).sum(axis=0)
    df = np.maximum(count - 1, 0).astype(np.float64)
    if noise is not None and noise.size:
        squares = squares + np.nansum(noise**2, axis=0)
        df = df + (~np.isnan(noise)).sum(axis=0)
    error = _error(squares, df, 1 / np.maximum(count, 1), np.maximum(floor, _rare_floor(differences, count)))
    rows = differences - change
    return Estimate(change, error, df, count, _correlation(rows, noise))


def unpaired(base: Floats, candidate: Floats, floor: Floats, noise: Floats | None = None) -> Estimate:
    """From values of runs that have no partner: float64 (num_runs, num_cells), logarithms where ratios are meant.

    Welch's t (Biometrika 34, 1947) where both sides have two runs; with one run on a side, the other's spread is
    taken for both. noise: as in `paired`; the spread of a difference, so half of it is one run's.
    """
    counts = [(~np.isnan(side)).sum(axis=0) for side in (base, candidate)]
    means = [_mean(side, count) for side, count in zip((base, candidate), counts, strict=True)]
    squares = [
        np.nansum((side - np.nan_to_num(mean)) ** 2, axis=0)
        for side, mean in zip((base, candidate), means, strict=True)
    ]
    dfs = [np.maximum(count - 1, 0).astype(np.float64) for count in counts]
    many = [np.maximum(count, 1) for count in counts]
    shares = [
        square / np.maximum(df, 1) / count for square, df, count in zip(squares, dfs, many, strict=True)
    ]
    total = shares[0] + shares[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        welch = total**2 / sum(share**2 / np.maximum(df, 1) for share, df in zip(shares, dfs, strict=True))
    lone = (dfs[0] == 0) | (dfs[1] == 0)
    pooled_df, pooled_squares = dfs[0] + dfs[1], squares[0] + squares[1]
    if noise is not None and noise.size:
        lone = np.ones_like(lone)
        pooled_squares = pooled_squares + np.nansum(noise**2, axis=0) / 2
        pooled_df = pooled_df + (~np.isnan(noise)).sum(axis=0)
    factor = 1 / many[0] + 1 / many[1]
    error = np.where(
        lone, _error(pooled_squares, pooled_df, factor, floor), np.maximum(np.sqrt(total), floor)
    )
    df = np.where(lone, pooled_df, np.where(np.isnan(welch), dfs[0] + dfs[1], welch))
    rows = np.vstack([base - means[0], candidate - means[1]])
    return Estimate(
        means[1] - means[0],
        np.where(df > 0, np.maximum(error, _LEAST_SPREAD), np.nan),
        df,
        np.minimum(*counts),
        _correlation(rows, noise),
    )


def _rare_floor(differences: Floats, count: npt.NDArray[np.int64]) -> Floats:
    """Least standard error of what is 0 in most pairs: as if the largest difference had come twice more.

    Failures that come in a few runs only have a spread that those few runs understate.
    """
    if not differences.size:
        return np.zeros(count.shape)
    sizes = np.abs(np.nan_to_num(differences))
    num_other = (sizes > 0).sum(axis=0)
    is_rare = (num_other > 0) & (2 * num_other < count)
    return np.where(is_rare, sizes.max(axis=0) * np.sqrt(num_other + 2) / np.maximum(count, 1), 0.0)


def _mean(rows: Floats, count: npt.NDArray[np.int64]) -> Floats:
    return np.where(count > 0, np.nansum(rows, axis=0) / np.maximum(count, 1), np.nan)


def _error(squares: Floats, df: Floats, factor: Floats, floor: Floats) -> Floats:
    spread = np.sqrt(squares / np.maximum(df, 1) * factor)
    return np.where(df > 0, np.maximum(np.maximum(spread, floor), _LEAST_SPREAD), np.nan)


def _correlation(rows: Floats, noise: Floats | None) -> Floats | None:
    """Shrunk towards none, by as much as chance alone would make of so few rows; None below four."""
    if noise is not None and noise.size:
        rows = np.vstack([rows, noise])
    rows = rows[~np.isnan(rows).all(axis=1)]
    if rows.shape[0] < 4:
        return None
    filled = np.nan_to_num(rows)
    scale = np.sqrt((filled**2).sum(axis=0))
    scaled = filled / np.where(scale > 0, scale, 1.0)
    correlation: Floats = (scaled.T @ scaled) * (1 - 3 / rows.shape[0])
    np.fill_diagonal(correlation, 1.0)
    return correlation
