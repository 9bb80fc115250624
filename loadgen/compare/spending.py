"""Spending: how much of the allowed false alarms each look may use, so that one can look after every pair.

The group-sequential plan of Lan and DeMets (Biometrika 70, 1983) with the spending function of the O'Brien-Fleming
kind: almost nothing is spent early, so the last look costs little more than a single one would. The boundaries
come from the recursion of Armitage, McPherson and Rowe (JRSS A 132, 1969) and are used as levels of the t law at
each look (Jennison and Turnbull, Group Sequential Methods, 2000, chapters 3, 7 and 11).
"""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from loadgen.compare.laws import Floats, normal_cdf, normal_quantile, root

_GRID = 301
# Less than this is not worth spending: it is saved for a later look.
_LEAST = 1e-9
_FAR = 12.0  # standard deviations, beyond which nothing happens


def spent(alpha: float, share: float) -> float:
    """Of `alpha`, what may be spent (two-sided) once `share` of the planned pairs is in."""
    if share <= 0:
        return 0.0
    # Each side has half of alpha, and spends it by the one-sided function.
    return float(4 - 4 * normal_cdf(normal_quantile(1 - alpha / 4) / np.sqrt(min(share, 1.0))))


@lru_cache(maxsize=1024)
def nominal_levels(alpha: float, num_looks: int) -> tuple[float, ...]:
    """The two-sided level to test at, at each look, for false alarms of at most `alpha` over all of them.

    Looks are after each pair, 1 to num_looks; one look has the whole alpha. A level of 0: nothing can be decided.
    """
    levels: list[float] = []
    kept_spent = 0.0
    grid: Floats = np.zeros(1)
    density: Floats = np.ones(1)
    last_share = 0.0
    for look in range(1, num_looks + 1):
        share = look / num_looks
        budget = spent(alpha, share) - kept_spent
        if budget < _LEAST and look < num_looks:
            levels.append(0.0)
            continue
        spread = np.sqrt(share - last_share)
        weights = density * (_trapezoid(grid) if grid.size > 1 else 1.0)

        bound = root(
            partial(_excess, grid=grid, weights=weights, spread=float(spread), budget=budget), 0.0, _FAR
        )
        levels.append(float(2 * normal_cdf(-bound / np.sqrt(share))))
        kept_spent += budget
        next_grid = np.linspace(-bound, bound, _GRID)
        kernel = np.exp(-0.5 * ((next_grid[:, None] - grid) / spread) ** 2) / (spread * np.sqrt(2 * np.pi))
        density = kernel @ weights
        grid = next_grid
        last_share = share
    return tuple(levels)


def _excess(bound: float, *, grid: Floats, weights: Floats, spread: float, budget: float) -> float:
    """By how much more often than allowed a step of `spread` from here goes beyond the bound."""
    outside = normal_cdf((-bound - grid) / spread) + normal_cdf((grid - bound) / spread)
    return float(weights @ outside) - budget


def _trapezoid(grid: Floats) -> Floats:
    weights = np.full(grid.size, grid[1] - grid[0])
    weights[[0, -1]] /= 2
    return weights
