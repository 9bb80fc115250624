"""The laws of chance that intervals are made of; the one module that knows scipy."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


_HALVINGS = 80


@cache
def _special() -> Any:
    # Loaded when first needed: every verb and every sending process starts by reading the whole command line.
    from scipy import special  # noqa: PLC0415

    return special


def normal_cdf(z: npt.ArrayLike) -> Floats:
    """P(Z <= z) of the standard normal."""
    return np.asarray(_special().ndtr(z), dtype=np.float64)


def normal_quantile(share: float) -> float:
    """The z that a standard normal is below with probability `share`; 0 gives -inf, 1 gives inf."""
    return float(_special().ndtri(share))


def two_sided_t_quantile(level: npt.ArrayLike, df: npt.ArrayLike) -> Floats:
    """The t with P(|T| > t) = level at `df` degrees of freedom; inf for level 0, NaN for df 0."""
    level, df = np.asarray(level, dtype=np.float64), np.asarray(df, dtype=np.float64)
    known = df > 0
    quantile = -_special().stdtrit(np.where(known, df, 1.0), level / 2)
    return np.where(known, np.where(level > 0, quantile, np.inf), np.nan)


def two_sided_t_p(t: npt.ArrayLike, df: npt.ArrayLike) -> Floats:
    """P(|T| >= |t|) at `df` degrees of freedom; NaN for df 0 or an unknown t."""
    t, df = np.asarray(t, dtype=np.float64), np.asarray(df, dtype=np.float64)
    known = (df > 0) & ~np.isnan(t)
    p = 2 * _special().stdtr(np.where(known, df, 1.0), -np.abs(np.where(known, t, 0.0)))
    return np.where(known, p, np.nan)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a falling continuous `function` crosses 0 between `low` and `high`, by halving."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if function(middle) > 0:
            low = middle
        else:
            high = middle
        if high - low < 1e-10:
            break
    return (low + high) / 2
