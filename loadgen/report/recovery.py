"""Recovery: how long after an injection its effects are seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadgen.percentiles import nearest_rank
from loadgen.plan.schedule import Window
from loadgen.report.figures import Missing
from loadgen.report.observations import Observations

# The rolling p99 is over the requests planned within this much time, and needs so many of them.
ROLLING_S = 2.0
MIN_REQUESTS = 5
TOLERANCE = 0.10


def recovery_s(seen: Observations, injection: Window, windows: Sequence[Window]) -> float | Missing:
    """Seconds from the injection's end until the rolling p99 latency is within 10 % of the baseline before it.

    The baseline is everything planned before the injection outside of other injections. 0 when it never left.
    Missing with the reason when there is no baseline, or too few requests follow to tell, or it was not reached.
    """
    latency, planned = seen.per_request["latency"], seen.planned_s
    start_s, end_s = injection.start_ns / 1e9, injection.end_ns / 1e9
    others = [
        w
        for w in windows
        if w.label.startswith(("peak", "burst", "recovery")) and w.start_ns < injection.start_ns
    ]
    before = (planned < start_s) & ~np.isnan(latency)
    for other in others:
        before &= (planned < other.start_ns / 1e9) | (planned >= other.end_ns / 1e9)
    if before.sum() < MIN_REQUESTS:
        return Missing(f"fewer than {MIN_REQUESTS} requests succeeded before it: no baseline")
    (baseline_s,) = nearest_rank(latency[before], [99])
    assert baseline_s is not None
    until_s = min(
        (w.start_ns / 1e9 for w in windows if w.start_ns > injection.start_ns and _is_injection(w)),
        default=np.inf,
    )
    after = np.flatnonzero((planned >= end_s) & (planned < until_s))
    if after.size < MIN_REQUESTS:
        return Missing(f"only {after.size} requests follow it: too few to tell")
    # A failure has not recovered: it counts as an endless latency here, and only here.
    moments, values = planned[after], np.where(np.isnan(latency[after]), np.inf, latency[after])
    order = np.argsort(moments, kind="stable")
    moments, values = moments[order], values[order]
    # What follows first speaks for the time since the injection's end: 0 when the latency never left.
    moments[0] = end_s
    first = np.arange(moments.size)
    last = np.searchsorted(moments, moments + ROLLING_S, side="right")
    counts = last - first
    enough = counts >= MIN_REQUESTS
    if not enough.any():
        return Missing(f"never {MIN_REQUESTS} requests within {ROLLING_S:g} s after it: too few to tell")
    # The nearest rank p99 of n values is within a bound when at least ceil(0.99 n) of them are.
    within = np.concatenate([[0], np.cumsum(values <= baseline_s * (1 + TOLERANCE))])
    is_back = enough & (within[last] - within[first] >= -(-99 * counts // 100))
    if not is_back.any():
        return Missing("not recovered before the next injection or the end")
    return float(moments[int(np.argmax(is_back))] - end_s)


def _is_injection(window: Window) -> bool:
    return window.label.startswith(("peak", "burst"))
