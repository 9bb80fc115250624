"""Goodput: which requests were good, each by its own times, such as `ttft:800ms latency:3s`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.durations import parse_duration_s
from loadgen.errors import UsageError
from loadgen.report.observations import Mask, Observations

# The times that a request has one of, and that are the target's: not lateness, not gaps.
BOUNDED = ("latency", "service_latency", "ttft", "service_ttft", "ttfat", "tpot")


@dataclass(frozen=True, slots=True)
class Bound:
    """A good request has this metric at or under `bound_s`. metric: one of BOUNDED."""

    metric: str
    bound_s: float


def parse_goodput(texts: Iterable[str]) -> tuple[Bound, ...]:
    """Bounds from `METRIC:TIME` pairs, with blanks or commas between them. Raises UsageError naming --goodput."""
    pairs = [pair for text in texts for pair in text.replace(",", " ").split()]
    bounds: dict[str, Bound] = {}
    for pair in pairs:
        metric, colon, time = pair.partition(":")
        if not colon or metric not in BOUNDED:
            raise UsageError(
                f"--goodput {pair!r} is no bound",
                hint=f"write 'ttft:800ms latency:3s'; metrics: {', '.join(BOUNDED)}",
            )
        if metric in bounds:
            raise UsageError(f"--goodput gives {metric} twice", hint="keep one of them")
        bounds[metric] = Bound(metric, parse_duration_s(time, option=f"--goodput {pair!r}"))
    return tuple(bounds.values())


def is_good(seen: Observations, bounds: Sequence[Bound]) -> Mask:
    """Whether each request succeeded within every bound.

    A time that a request does not have was not kept to, save the time per token of an answer of one token: there
    was none to wait for.
    """
    good: Mask = seen.is_ok.copy()
    for bound in bounds:
        within = seen.per_request[bound.metric] <= bound.bound_s
        if bound.metric == "tpot":
            within |= np.asarray(seen.numbers("output_tokens") == 1, dtype=bool)
        good &= within
    return good
