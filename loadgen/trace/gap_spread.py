"""GapSpread: how the gaps between arrivals are spread, beside a Poisson process of the same mean rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadgen.trace.trace import Trace

Moments = npt.NDArray[np.int64]

# Edges of bins within a decade, finest first; the first that needs few enough bins is taken.
_STEPS = ((1, 2, 5), (1, 3), (1,))
_MAX_BINS = 12
# What lies beyond the outer edges, of recorded gaps above 0 and of Poisson's, is at most this share.
_MAX_BEYOND = 0.005
# Less than this is 0.0 % on paper: no bin for it, unless a gap was recorded there.
_LEAST_SHOWN = 0.0005


@dataclass(frozen=True, slots=True)
class GapBin:
    """Gaps above 0 from from_s (inclusive) to until_s (exclusive, None for no end), as shares of all gaps."""

    from_s: float
    until_s: float | None
    share: float
    poisson_share: float


@dataclass(frozen=True, slots=True)
class GapSpread:
    """Gaps between arrivals, and what Poisson arrivals of the same mean rate would show.

    cv: standard deviation / mean (population). tie_share: gaps of exactly 0, as a share of all. step_ns: stamps are
    whole multiples of it; Poisson arrivals are taken as stamped by the same clock, so that ties which a coarse
    stamp makes are not taken for bursts. bins: of the gaps above 0, in order; with the ties they add up to 1.
    """

    gaps: int
    mean_s: float
    longest_s: float
    cv: float
    tie_share: float
    poisson_cv: float
    poisson_tie_share: float
    step_ns: int
    bins: tuple[GapBin, ...]


def gap_spread(trace: Trace) -> GapSpread | None:
    """The spread of `trace`'s gaps; None where there is no mean gap: one request, or all at one moment."""
    gaps_ns = np.sort(np.diff(trace.arrival_ns))
    if gaps_ns.size == 0 or gaps_ns[-1] == 0:
        return None
    mean_ns = float(gaps_ns.mean())
    step_ns = stamp_step_ns(trace)
    x = step_ns / mean_ns
    return GapSpread(
        gaps=gaps_ns.size,
        mean_s=mean_ns / 1e9,
        longest_s=float(gaps_ns[-1]) / 1e9,
        cv=float(gaps_ns.std()) / mean_ns,
        tie_share=float(np.searchsorted(gaps_ns, 1)) / gaps_ns.size,
        # Of the law below: the second moment of the gap, in steps, is coth(x / 2) / x.
        poisson_cv=math.sqrt(x / math.tanh(x / 2) - 1),
        poisson_tie_share=1 - float(poisson_at_least([1], mean_ns, step_ns)[0]),
        step_ns=step_ns,
        bins=_bins(gaps_ns, mean_ns, step_ns),
    )


def stamp_step_ns(trace: Trace) -> int:
    """The resolution of the trace's stamps if its arrivals still lie on it, else 1 ns."""
    resolution_ns = trace.metadata.resolution_ns
    if not resolution_ns or np.any(np.diff(trace.arrival_ns) % resolution_ns):
        return 1
    return resolution_ns


def poisson_at_least(
    gaps_ns: Sequence[int] | Moments, mean_ns: float, step_ns: int
) -> npt.NDArray[np.float64]:
    """Share of gaps of at least `gaps_ns` (1 or more) between Poisson arrivals stamped in whole steps.

    An arrival lies anywhere within its step, and the next comes an exponential time later. With x = step / mean,
    the stamps then differ by k steps or more with the probability (1 - exp(-x)) / x * exp(-x * (k - 1)).
    """
    x = step_ns / mean_ns
    steps = -(-np.asarray(gaps_ns, dtype=np.int64) // step_ns)
    shares: npt.NDArray[np.float64] = -np.expm1(-x) / x * np.exp(-x * (steps - 1))
    return shares


def _bins(gaps_ns: Moments, mean_ns: float, step_ns: int) -> tuple[GapBin, ...]:
    """gaps_ns: ascending."""
    for steps in _STEPS:
        edges_ns = [step * 10**power for power in range(19) for step in steps if step * 10**power < 2**63]
        bins = _between(edges_ns, gaps_ns, mean_ns, step_ns)
        if len(bins) <= _MAX_BINS:
            break
    return bins


def _between(edges_ns: Sequence[int], gaps_ns: Moments, mean_ns: float, step_ns: int) -> tuple[GapBin, ...]:
    # Shares of at least each edge, from all gaps above 0 to none.
    recorded = 1 - np.searchsorted(gaps_ns, [1, *edges_ns]) / gaps_ns.size
    poisson = poisson_at_least([1, *edges_ns], mean_ns, step_ns)
    # Of the gaps above 0 alone: ties may be nearly all.
    least = np.minimum(recorded / recorded[0], poisson / poisson[0])[1:]
    most = np.maximum(recorded / recorded[0], poisson / poisson[0])[1:]
    first = int(np.count_nonzero(least >= 1 - _MAX_BEYOND)) - 1
    last = min(max(int(np.count_nonzero(most > _MAX_BEYOND)), first), len(edges_ns) - 1)
    kept = edges_ns[first : last + 1]
    places = [0, *range(first + 1, last + 2)]
    recorded, poisson = np.append(recorded[places], 0.0), np.append(poisson[places], 0.0)
    found = [
        GapBin(start / 1e9, None if end is None else end / 1e9, float(share), float(poisson_share))
        for start, end, share, poisson_share in zip(
            [0, *kept], [*kept, None], -np.diff(recorded), -np.diff(poisson), strict=True
        )
    ]
    while found and not _is_shown(found[-1]):
        found.pop()
    return tuple(found if _is_shown(found[0]) else found[1:])


def _is_shown(one: GapBin) -> bool:
    # Differences of shares leave a rest in the last digits.
    return one.share > 1e-12 or one.poisson_share >= _LEAST_SHOWN
