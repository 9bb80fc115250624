"""Injected windows: whether the target held in each, against the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.durations import format_duration
from loadgen.report.figures import Figure, Missing
from loadgen.report.measures import Measures
from loadgen.report.recovery import NOT_RECOVERED, is_injection

# A window whose p99 is this many times the baseline's did not hold,
WORSE_THAN_BASELINE = 1.5
# nor did one that failed this share of requests beyond what the baseline failed.
MORE_FAILURES = 0.01


@dataclass(frozen=True, slots=True)
class Injected:
    """One peak or burst. p99_s, baseline_p99_s: of latency, None where nothing succeeded.

    error_rate, baseline_error_rate: None where nothing was decided. recovery: seconds, or why not known.
    """

    label: str
    p99_s: float | None
    baseline_p99_s: float | None
    error_rate: float | None
    baseline_error_rate: float | None
    recovery: Figure

    @property
    def more_failures(self) -> float:
        """Share of requests that failed, beyond the baseline's."""
        return max(0.0, (self.error_rate or 0.0) - (self.baseline_error_rate or 0.0))

    @property
    def times_baseline(self) -> float | None:
        if self.p99_s is None or not self.baseline_p99_s:
            return None
        return self.p99_s / self.baseline_p99_s

    @property
    def has_held(self) -> bool | None:
        """None where nothing can be told: no request was decided in it, or there is no baseline."""
        if self.error_rate is not None and self.more_failures >= MORE_FAILURES:
            return False
        return None if self.times_baseline is None else self.times_baseline <= WORSE_THAN_BASELINE

    @property
    def has_recovered(self) -> bool | None:
        """None where it cannot be told."""
        if isinstance(self.recovery, Missing):
            return False if self.recovery.reason == NOT_RECOVERED else None
        return True

    @property
    def words(self) -> str:
        """The numbers behind the verdict."""
        parts = []
        if self.p99_s is not None and self.baseline_p99_s is not None:
            parts.append(
                f"p99 latency {format_duration(self.p99_s)} against {format_duration(self.baseline_p99_s)} in the "
                "baseline"
            )
        elif self.p99_s is None:
            parts.append("no request succeeded in it")
        else:
            parts.append("no baseline to compare with")
        if self.error_rate:
            parts.append(f"{self.error_rate:.1%} refused or failed")
        return ", ".join(parts)

    @property
    def recovery_words(self) -> str:
        if isinstance(self.recovery, Missing):
            return f"recovery: {self.recovery.reason}"
        assert isinstance(self.recovery, float)
        return f"back to normal {format_duration(self.recovery)} after it"


def injected_windows(measured: Sequence[Measures]) -> list[Injected]:
    """Every injected window that something was planned in, in order of time. measured: overall first."""
    base = next((measures for measures in measured if measures.label == "baseline"), None)
    baseline = base.distribution("latency") if base else None
    found: list[Injected] = []
    for measures in measured:
        if not is_injection(measures.label) or measures.requests == 0:
            continue
        latency = measures.distribution("latency")
        found.append(
            Injected(
                label=measures.label,
                p99_s=latency.p99 if latency else None,
                baseline_p99_s=baseline.p99 if baseline else None,
                error_rate=measures.value("error_rate"),
                baseline_error_rate=base.value("error_rate") if base else None,
                recovery=measures.figures["recovery_s"],
            )
        )
    return found


def worst(found: Sequence[Injected]) -> Injected | None:
    """The one that held least: most failures first, then the highest latency against the baseline."""
    return max(found, key=lambda one: (one.more_failures, one.times_baseline or 0.0), default=None)
