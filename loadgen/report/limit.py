"""Limit: a bound that a run must keep, such as `ttft p99 < 800ms`, and whether it did."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from loadgen.durations import parse_duration_s
from loadgen.errors import UsageError
from loadgen.report.figures import Distribution
from loadgen.report.measures import Measures
from loadgen.report.metric import BY_NAME

_FORM = re.compile(r"^\s*(\w+)(?:\s+(p50|p90|p95|p99|mean|max|min))?\s*(<=|>=|<|>)\s*(\S+)\s*$")
_COMPARE = {
    "<": lambda value, bound: value < bound,
    "<=": lambda value, bound: value <= bound,
    ">": lambda value, bound: value > bound,
    ">=": lambda value, bound: value >= bound,
}


@dataclass(frozen=True, slots=True)
class Limit:
    """metric, statistic (None where the metric is one value), comparison, bound in the metric's unit."""

    text: str
    metric: str
    statistic: str | None
    comparison: str
    bound: float


@dataclass(frozen=True, slots=True)
class LimitVerdict:
    """kept: None where there was no value to judge. value: in the metric's unit. window: overall or a label."""

    limit: Limit
    window: str
    value: float | None
    kept: bool | None


def parse_limit(text: str) -> Limit:
    """`METRIC [STATISTIC] < BOUND`. Bounds of times carry a unit, shares may be percentages.

    Raises UsageError naming --slo.
    """
    match = _FORM.match(text)
    if match is None:
        raise UsageError(f"--slo {text!r} is no limit", hint="write 'ttft p99 < 800ms' or 'error_rate < 1%'")
    name, statistic, comparison, bound = match.groups()
    if name not in BY_NAME:
        raise UsageError(f"--slo {text!r}: no metric {name}", hint=f"one of: {', '.join(BY_NAME)}")
    metric = BY_NAME[name]
    if metric.per_request and statistic is None:
        raise UsageError(
            f"--slo {text!r}: which value of {name}?", hint=f"write '{name} p99 {comparison} {bound}'"
        )
    if not metric.per_request and statistic is not None:
        raise UsageError(f"--slo {text!r}: {name} is one value", hint=f"write '{name} {comparison} {bound}'")
    return Limit(text, name, statistic, comparison, _bound(bound, metric.unit, text))


def error_rate_limit(text: str) -> Limit:
    """The limit of `--max-error-rate 10%`."""
    bound = _bound(text, "share", f"error_rate <= {text}", option="--max-error-rate")
    return Limit(f"error_rate <= {text}", "error_rate", None, "<=", bound)


def judge_limits(limits: Sequence[Limit], measured: Sequence[Measures]) -> list[LimitVerdict]:
    """Each limit overall and in each window, in that order. The overall verdicts decide; the windows tell where."""
    verdicts: list[LimitVerdict] = []
    for limit in limits:
        for measures in measured:
            figure = measures.figures.get(limit.metric)
            if figure is None:
                continue  # a window that the metric says nothing of: recovery outside of injections
            value: float | None = None
            if isinstance(figure, Distribution) and limit.statistic is not None:
                value = float(getattr(figure, limit.statistic))
            elif isinstance(figure, float):
                value = figure
            kept = None if value is None else bool(_COMPARE[limit.comparison](value, limit.bound))
            verdicts.append(LimitVerdict(limit, measures.label, value, kept))
    return verdicts


def _bound(text: str, unit: str, whole: str, option: str = "--slo") -> float:
    if unit == "s":
        return parse_duration_s(text, option=f"{option} {whole!r}")
    try:
        bound = float(text[:-1]) / 100 if text.endswith("%") and unit == "share" else float(text)
        if not math.isfinite(bound):
            raise ValueError(text)
        return bound
    except ValueError:
        hint = "give a percentage or a share" if unit == "share" else f"give a number ({unit})"
        raise UsageError(f"{option} {whole!r}: {text} is no number", hint=hint) from None
