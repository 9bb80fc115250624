"""Arrivals: the recorded ones, or the same number over the same length in another form."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from loadgen.errors import ScheduleError
from loadgen.plan.moments import Moments

KINDS = ("trace", "uniform", "poisson", "gamma", "bursty")
GAMMA_BURSTINESS = 0.25  # gaps vary twice as much as those of Poisson arrivals

# Bursty: groups that come within so long, on average one a second, of ten requests at least.
BURST_WIDTH_NS = 30_000_000
BURST_INTERVAL_NS = 1_000_000_000
MIN_BURST_SIZE = 10


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Which form arrivals take; the number of requests, their order and the schedule's length stay.

    kind: `trace` keeps the recorded moments, `uniform` has equal gaps, `poisson` exponential ones, `gamma` gaps
    whose shape parameter is `burstiness` (1 is Poisson, below 1 burstier: standard deviation / mean is
    1 / sqrt(burstiness)), `bursty` groups within 30 ms with silence between.
    burstiness: of gamma only, 0.25 where None.
    Raises ScheduleError naming the flag if a value cannot be used.
    """

    kind: str = "trace"
    burstiness: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ScheduleError(f"--arrivals is {self.kind!r}", hint=f"give one of {', '.join(KINDS)}")
        if self.burstiness is None:
            return
        if self.kind != "gamma":
            raise ScheduleError(
                f"--burstiness is given with --arrivals {self.kind}", hint="add --arrivals gamma"
            )
        # Below 0.01 most gaps are smaller than any float.
        if not 0.01 <= self.burstiness < math.inf:
            raise ScheduleError(
                f"--burstiness is {self.burstiness:g}",
                hint="give 0.01 or more; 1 is Poisson, less is burstier",
            )

    def moments(self, recorded_ns: Moments, length_ns: int, rng: np.random.Generator) -> Moments:
        """As many moments as `recorded_ns`, within [0, length_ns), the first at 0 unless they are recorded."""
        count = recorded_ns.size
        match self.kind:
            case "uniform":
                step_ns, rest_ns = divmod(length_ns, count)
                places = np.arange(count, dtype=np.int64)
                return places * step_ns + places * rest_ns // count
            case "poisson":
                return _by_gaps(rng.standard_exponential(count), length_ns)
            case "gamma":
                shape = GAMMA_BURSTINESS if self.burstiness is None else self.burstiness
                return _by_gaps(rng.standard_gamma(shape, count), length_ns)
            case "bursty":
                return _in_bursts(count, length_ns, rng)
        return recorded_ns


def _by_gaps(gaps: np.ndarray[tuple[int, ...], np.dtype[np.float64]], length_ns: int) -> Moments:
    """Moments after each of `gaps`, these scaled so that they fill the length together.

    Scaling makes the mean rate exact; exponential gaps so scaled are a Poisson process of which the count is known.
    """
    passed = np.cumsum(gaps)
    if not passed[-1] > 0:
        return np.zeros(gaps.size, dtype=np.int64)
    shares = np.concatenate([[0.0], passed[:-1] / passed[-1]])
    return np.minimum((shares * length_ns).astype(np.int64), length_ns - 1)


def _in_bursts(count: int, length_ns: int, rng: np.random.Generator) -> Moments:
    """Groups of equal size; their beginnings come as Poisson arrivals, their members anywhere in 30 ms."""
    size = max(MIN_BURST_SIZE, round(count * BURST_INTERVAL_NS / length_ns))
    num_bursts = -(-count // size)
    width_ns = min(BURST_WIDTH_NS, length_ns)
    starts_ns = _by_gaps(rng.standard_exponential(num_bursts), length_ns - width_ns + 1)
    bursts = np.arange(count, dtype=np.int64) * num_bursts // count
    is_first = np.diff(bursts, prepend=-1) > 0
    offsets_ns = np.where(is_first, 0, rng.integers(0, width_ns, count, dtype=np.int64))
    return np.sort(starts_ns[bursts] + offsets_ns)
