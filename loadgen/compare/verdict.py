"""Verdict: what is said of one figure, and of all together."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from loadgen.errors import ExitCode


class Verdict(StrEnum):
    """better, worse: the interval excludes no change. same: it lies within the margin. Else inconclusive."""

    BETTER = "better"
    WORSE = "worse"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"

    @property
    def exit_code(self) -> ExitCode:
        return {
            Verdict.WORSE: ExitCode.LIMIT_BROKEN,
            Verdict.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
        }.get(self, ExitCode.OK)


def verdict_of(low: float, high: float, margin: float, better: str) -> Verdict:
    """Of the interval from low to high of a change. better: lower, higher or neither (then any change is worse).

    An interval that touches 0 does not exclude it. Unknown bounds (NaN) are inconclusive.
    """
    if not low <= high:
        return Verdict.INCONCLUSIVE
    if -margin <= low and high <= margin:
        return Verdict.SAME
    if low > 0:
        return Verdict.BETTER if better == "higher" else Verdict.WORSE
    if high < 0:
        return Verdict.BETTER if better == "lower" else Verdict.WORSE
    return Verdict.INCONCLUSIVE


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Worse if any is; else better if any is; same only if all are."""
    found = set(verdicts)
    for verdict in (Verdict.WORSE, Verdict.BETTER):
        if verdict in found:
            return verdict
    return Verdict.SAME if found == {Verdict.SAME} else Verdict.INCONCLUSIVE
