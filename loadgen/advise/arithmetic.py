"""The arithmetic before any simulation: arrival rates, how long a batch takes to fill, and Little's law."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadgen.trace.statistics import SECOND_NS, peak_within

_BATCHES = (1, 2, 4, 8, 16, 32, 64)
# The share of the budget that waiting for a batch may take.
WAIT_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Rates:
    """Requests a second. mean: over the whole schedule, silences and all; None for one within an instant.

    busy: over the second that a request finds itself in, mean over requests: sum of n^2 / sum of n over the
    seconds with n requests. That is the rate that a request's batch fills at; bursts and silences make it higher
    than the mean. peak: most in any one second.
    """

    mean: float | None
    busy: float
    peak: float


def rates_of(planned_ns: npt.NDArray[np.int64], length_ns: int) -> Rates:
    """The rates of a schedule: planned_ns ascending, at least one; length_ns: of the whole schedule."""
    counts = np.bincount((planned_ns - planned_ns[0]) // SECOND_NS).astype(np.float64)
    length_s = length_ns / 1e9
    return Rates(
        planned_ns.size / length_s if length_s >= 1 else None,
        float((counts**2).sum() / counts.sum()),
        float(peak_within(planned_ns, SECOND_NS)),
    )


@dataclass(frozen=True, slots=True)
class Fill:
    """How long a batch of so many takes to fill at a rate, and whether that is within half of the budget."""

    max_batch: int
    wait_s: float
    fits: bool


def fills(rate: float, budget_s: float) -> list[Fill]:
    """The article's formula, batch wait = max batch / arrival rate, for the usual batch sizes."""
    found = []
    for size in _BATCHES:
        wait_s = size / rate
        found.append(Fill(size, wait_s, wait_s <= WAIT_SHARE * budget_s))
    return found


@dataclass(frozen=True, slots=True)
class Little:
    """L = rate x time. in_execution: requests executing at once at the busy rate. high_water: what may wait.

    service_s: mean time in execution. capacity: answers a second when all rows are full. A request that finds more
    than `high_water` waiting comes out beyond the budget, so it is better refused at once; 0 where execution alone
    is longer than the budget.
    """

    rate: float
    service_s: float
    in_execution: float
    batches: int
    capacity: float
    high_water: int


def little(rate: float, service_s: float, capacity: float, budget_s: float, max_batch: int) -> Little:
    """capacity: answers a second; max_batch: rows of a batch."""
    inside = rate * service_s
    left_s = max(0.0, budget_s - service_s)
    return Little(
        rate,
        service_s,
        inside,
        max(1, math.ceil(inside / max_batch)),
        capacity,
        max(1, math.floor(capacity * left_s)) if left_s else 0,
    )
