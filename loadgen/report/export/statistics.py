"""Statistics that other tools' files name and a Distribution lacks."""

from __future__ import annotations

import numpy as np

from loadgen.percentiles import nearest_rank
from loadgen.report.figures import Floats


def known(values: Floats) -> Floats:
    """The values that are not NaN."""
    return values[~np.isnan(values)]


def ranks(values: Floats, percents: list[float]) -> list[float | None]:
    """Nearest rank percentiles of the values that are not NaN, in their unit; None where there are none."""
    return nearest_rank(known(values), percents)


def mean(values: Floats) -> float | None:
    found = known(values)
    return float(found.mean()) if found.size else None


def deviation(values: Floats, *, ddof: int = 0) -> float | None:
    """Standard deviation; of the population, or of a sample with ddof=1. None where it is not defined."""
    found = known(values)
    return float(found.std(ddof=ddof)) if found.size > ddof else None


def most_at_once(starts: Floats, ends: Floats) -> int:
    """The most intervals that overlap at any moment; one that ends as another begins does not overlap it."""
    moments = np.concatenate([starts, ends])
    steps = np.concatenate([np.ones(starts.size), -np.ones(ends.size)])
    order = np.lexsort((steps, moments))
    return int(np.cumsum(steps[order]).max(initial=0))
