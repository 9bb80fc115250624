"""Validity: whether the run was sent as planned. If we were the limit, its figures say nothing of the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadgen.report.figures import Distribution, Figure

# Below this a loop's lag is noise of the machine; above it stamps are late too.
MAX_LOOP_LAG_S = 0.05


@dataclass(frozen=True, slots=True)
class Thresholds:
    """How late is too late: p99 lateness over max_lateness_s and over ttft_share of the median TTFT, both."""

    max_lateness_s: float = 0.002
    ttft_share: float = 0.02
    max_loop_lag_s: float = MAX_LOOP_LAG_S


@dataclass(frozen=True, slots=True)
class Validity:
    """reasons: why it is invalid; empty when it is valid. limit_s: the lateness limit that was applied."""

    reasons: tuple[str, ...]
    limit_s: float
    lateness_p99_s: float | None
    thresholds: Thresholds

    @property
    def is_valid(self) -> bool:
        return not self.reasons


def judge(
    figures: Mapping[str, Figure],
    outcomes: Mapping[str, int],
    facts: Mapping[str, Any],
    thresholds: Thresholds,
) -> Validity:
    """figures: overall. outcomes: counts by name. facts: run.json.

    Our own lateness ends where a connection is asked for: what opening it takes is the network's and the
    target's. Behind a cap on requests in flight it ends at the send.
    """
    reasons: list[str] = []
    capped = (facts.get("settings") or {}).get("max_concurrency") is not None
    lateness = figures["lateness" if capped else "dispatch_lateness"]
    ttft = figures["ttft"]
    limit_s = thresholds.max_lateness_s
    if isinstance(ttft, Distribution):
        limit_s = max(limit_s, thresholds.ttft_share * ttft.p50)
    p99_s = lateness.p99 if isinstance(lateness, Distribution) else None
    if p99_s is not None and p99_s > limit_s:
        cause = " behind --max-concurrency" if capped else ""
        reasons.append(f"requests left late{cause}: p99 {p99_s * 1e3:.1f} ms, limit {limit_s * 1e3:.1f} ms")
    if own := outcomes.get("client_error", 0):
        reasons.append(f"{own} requests failed for a limit of this machine")
    if facts.get("status") == "complete":
        if unsent := outcomes.get("not_sent", 0):
            reasons.append(f"{unsent} planned requests were not sent")
        if unknown := outcomes.get("unrecorded", 0):
            reasons.append(f"of {unknown} planned requests it is not known whether they were sent")
    generator = facts.get("generator") or {}
    if lost := generator.get("lost"):
        count = len(lost) + len(generator.get("workers") or ())
        reasons.append(
            f"{len(lost)} of {count} workers {'was' if len(lost) == 1 else 'were'} lost in the run"
        )
    lags = [worker.get("loop_lag_p99_s") or 0.0 for worker in generator.get("workers") or ()]
    if lags and max(lags) > thresholds.max_loop_lag_s:
        reasons.append(
            f"the generator was overloaded: its event loop lagged {max(lags) * 1e3:.0f} ms at p99, "
            f"limit {thresholds.max_loop_lag_s * 1e3:.0f} ms"
        )
    return Validity(tuple(reasons), limit_s, p99_s, thresholds)
