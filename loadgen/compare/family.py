"""Family: many figures are looked at, so each is held to a stricter level, and all together to the one promised."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from loadgen.compare.laws import Floats

Mask = npt.NDArray[np.bool_]

# The share of the allowed false alarms that belongs to the deciding figures; the rest goes to all others.
DECIDING_SHARE = 0.8
# Numbers of independent figures are rounded up by at most this factor, so that few boundaries need computing.
_STEP = 1.05


def independent(correlation: Floats | None, cells: Mask) -> float:
    """How many independent figures the marked ones amount to: all of them when nothing is known of their noise.

    Galwey's number, from the eigenvalues of their correlation (Genetic Epidemiology 33, 2009).
    """
    count = int(cells.sum())
    if correlation is None or count < 2:
        return float(max(count, 1))
    values = np.clip(np.linalg.eigvalsh(correlation[np.ix_(cells, cells)]), 0, None)
    number = np.sqrt(values).sum() ** 2 / values.sum()
    steps = np.ceil(np.log(max(number, 1.0)) / np.log(_STEP) - 1e-3)
    return float(min(_STEP**steps, count))


def step_down(
    p: Floats,
    deciding: Mask,
    rejected: Mask,
    correlation: Floats | None,
    alpha: float,
    nominal: Callable[[float], float],
) -> tuple[Mask, Floats]:
    """Which cells differ by their p at this look, and the level of false alarms that each was held to.

    p: NaN where nothing can be told. rejected: those that differed at an earlier look; they give their share to
    the others. nominal: from the alpha of one cell over all looks to its level at this one.
    Holm's step-down within the deciding cells and within the others, each with its share of alpha, with recycling
    to the other group once a group is all rejected (Maurer and Bretz, Statistics in Biopharmaceutical Research 5,
    2013); the number of cells is taken as `independent` says.
    """
    rejected = rejected.copy()
    alphas = np.zeros(p.size)
    while True:
        before = rejected.copy()
        for group, share, other in (
            (deciding, DECIDING_SHARE, ~deciding),
            (~deciding, 1 - DECIDING_SHARE, deciding),
        ):
            has_all = bool((rejected | ~other | np.isnan(p)).all())
            remaining = group & ~rejected & ~np.isnan(p)
            if not remaining.any():
                continue
            cell_alpha = alpha * (1.0 if has_all else share) / independent(correlation, remaining)
            alphas[remaining] = cell_alpha
            rejected |= remaining & (p <= nominal(cell_alpha))
        if (rejected == before).all():
            return rejected, alphas
