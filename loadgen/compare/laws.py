"""The laws of chance that intervals are made of; the one module that knows scipy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy import optimize, special

Floats = npt.NDArray[np.float64]


def normal_cdf(z: npt.ArrayLike) -> Floats:
    """P(Z <= z) of the standard normal."""
    return np.asarray(special.ndtr(z), dtype=np.float64)


def normal_quantile(share: float) -> float:
    """The z that a standard normal is below with probability `share`; 0 gives -inf, 1 gives inf."""
    return float(special.ndtri(share))


def two_sided_t_quantile(level: npt.ArrayLike, df: npt.ArrayLike) -> Floats:
    """The t with P(|T| > t) = level at `df` degrees of freedom; inf for level 0, NaN for df 0."""
    level, df = np.asarray(level, dtype=np.float64), np.asarray(df, dtype=np.float64)
    known = df > 0
    quantile = -special.stdtrit(np.where(known, df, 1.0), level / 2)
    return np.where(known, np.where(level > 0, quantile, np.inf), np.nan)


def two_sided_t_p(t: npt.ArrayLike, df: npt.ArrayLike) -> Floats:
    """P(|T| >= |t|) at `df` degrees of freedom; NaN for df 0 or an unknown t."""
    t, df = np.asarray(t, dtype=np.float64), np.asarray(df, dtype=np.float64)
    known = (df > 0) & ~np.isnan(t)
    p = 2 * special.stdtr(np.where(known, df, 1.0), -np.abs(np.where(known, t, 0.0)))
    return np.where(known, p, np.nan)


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a continuous `function` crosses 0 between two points at which it has different signs."""
    return float(optimize.brentq(function, low, high, xtol=1e-10))
