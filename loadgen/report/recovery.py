"""Recovery: how long after an injection its effects are seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from loadgen.plan.schedule import Window
from loadgen.report.figures import Floats, Missing
from loadgen.report.observations import Observations

# The rolling p99 is over the requests planned within this much time, and needs so many of them.
ROLLING_S = 2.0
MIN_REQUESTS = 5
TOLERANCE = 0.10
NOT_RECOVERED = "not recovered before the next injection or the end"


def recoveries(seen: Observations, windows: Sequence[Window]) -> dict[str, float | Missing]:
    """By label of each injected window: seconds from its end until latency is back where it was before it.

    Back: the rolling p99 is within 10 % of the p99 of the baseline, which is everything planned before the
    injection outside of injections and their recoveries. 0 when it never left. Missing with the reason when
    there is no baseline, or too few requests follow to tell, or it was not reached.
    """
    injections = [window for window in windows if is_injection(window.label)]
    if not injections:
        return {}
    order = np.argsort(seen.planned_s, kind="stable")
    planned_s, latency_s = seen.planned_s[order], seen.per_request["latency"][order]
    is_calm = ~np.isnan(latency_s)
    for window in windows:
        if is_injection(window.label) or window.label.startswith("recovery"):
            first, last = np.searchsorted(planned_s, [window.start_ns / 1e9, window.end_ns / 1e9])
            is_calm[first:last] = False
    nexts_s = [window.start_ns / 1e9 for window in injections[1:]] + [np.inf]
    found: dict[str, float | Missing] = {}
    for injection, next_s in zip(injections, nexts_s, strict=True):
        start, end, until = np.searchsorted(
            planned_s, [injection.start_ns / 1e9, injection.end_ns / 1e9, next_s]
        )
        before = latency_s[:start][is_calm[:start]]
        if before.size < MIN_REQUESTS:
            found[injection.label] = Missing(
                f"fewer than {MIN_REQUESTS} requests succeeded before it: no baseline"
            )
            continue
        bound_s = _p99(before) * (1 + TOLERANCE)
        found[injection.label] = _back_s(
            planned_s[end:until] - injection.end_ns / 1e9, latency_s[end:until], bound_s
        )
    return found


def longest(found: dict[str, float | Missing]) -> float | Missing:
    """The recovery of a whole run: the longest of all, or Missing when one of them is."""
    longest_s = 0.0
    for label, figure in found.items():
        if isinstance(figure, Missing):
            return Missing(f"{label}: {figure.reason}")
        longest_s = max(longest_s, figure)
    return longest_s if found else Missing("nothing was injected")


def is_injection(label: str) -> bool:
    return label.startswith(("peak", "burst"))


def _back_s(since_s: Floats, latency_s: Floats, bound_s: float) -> float | Missing:
    """since_s: ascending, planned moments after the injection's end; the first rolling window that is within."""
    if since_s.size < MIN_REQUESTS:
        return Missing(f"only {since_s.size} requests follow it: too few to tell")
    # The first that follows speaks for the time since the injection's end: 0 when the latency never left.
    starts_s = np.concatenate([[0.0], since_s[1:]])
    first = np.arange(since_s.size)
    last = np.searchsorted(since_s, starts_s + ROLLING_S, side="right")
    counts = last - first
    has_enough = counts >= MIN_REQUESTS
    if not has_enough.any():
        return Missing(f"never {MIN_REQUESTS} requests within {ROLLING_S:g} s after it: too few to tell")
    # The nearest rank p99 of n values is within a bound when at least ceil(0.99 n) of them are. A failure has
    # not recovered: its latency is NaN, which is within nothing.
    within = np.concatenate([[0], np.cumsum(latency_s <= bound_s)])
    is_back = has_enough & (within[last] - within[first] >= -(-99 * counts // 100))
    if not is_back.any():
        return Missing(NOT_RECOVERED)
    return float(starts_s[int(np.argmax(is_back))])


def _p99(values: Floats) -> float:
    """By nearest rank, without the sort that many percentiles of one set would share."""
    rank = -(-99 * values.size // 100)
    return float(np.partition(values, rank - 1)[rank - 1])
