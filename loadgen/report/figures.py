"""Figures: a distribution, or one value, or the reason why there is none."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.percentiles import ranked

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distribution:
    """What a set of observed values looks like, in their unit; percentiles are observed values (nearest rank)."""

    count: int
    mean: float
    min: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True)
class Missing:
    """No value, and why: never a 0 in its place."""

    reason: str


Figure = Distribution | float | Missing


def distribution(values: Floats, reason: str) -> Distribution | Missing:
    """The distribution of the values that are not NaN; Missing with `reason` when there is none."""
    return distribution_of_ordered(np.sort(values[~np.isnan(values)]), reason)


def distribution_of_ordered(
    ascending: Floats | npt.NDArray[np.int32], reason: str, *, divisor: float = 1.0
) -> Distribution | Missing:
    """The same of values in order, none of them NaN, without a copy. divisor: how many make one of the unit."""
    if ascending.size == 0:
        return Missing(reason)
    ranks = [rank / divisor for rank in ranked(ascending, [0, 50, 90, 95, 99, 100]) if rank is not None]
    return Distribution(int(ascending.size), float(ascending.mean()) / divisor, *ranks)


def share(part: float, whole: float, reason: str) -> float | Missing:
    """part / whole, or Missing where there is nothing to take a share of."""
    return float(part / whole) if whole > 0 else Missing(reason)


def as_json(figure: Figure) -> Any:
    """A figure for a report: the value itself, a mapping of a distribution, or null with its reason."""
    if isinstance(figure, Missing):
        return {"value": None, "reason": figure.reason}
    if isinstance(figure, Distribution):
        return asdict(figure)
    return {"value": figure}


def from_json(value: dict[str, Any]) -> Figure:
    """The figure that as_json made this of. Raises KeyError or TypeError for anything else."""
    if "count" in value:
        return Distribution(**value)
    return Missing(value["reason"]) if value["value"] is None else float(value["value"])
