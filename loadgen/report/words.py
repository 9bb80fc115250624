"""Words that the terminal, the page and the Markdown share: a run's title, its counts, what held least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from loadgen.durations import format_duration
from loadgen.report.clock_offset import ClockOffset
from loadgen.report.figures import Distribution
from loadgen.report.injected import Injected, worst
from loadgen.report.limit import LimitVerdict
from loadgen.report.measures import Measures
from loadgen.report.metric import BY_NAME
from loadgen.report.report import Report


def plain(text: str) -> str:
    """Text from outside, which may hold what moves a cursor or turns the direction of writing: `?` in its place."""
    return "".join(char if char.isprintable() else "?" for char in text)


def title(report: Report) -> str:
    reason = report.facts.get("exit_reason")
    status = report.status + (f" ({reason})" if reason else "")
    valid = "valid" if report.validity.is_valid else "INVALID: the generator was the limit"
    made = "simulated, " if report.facts.get("simulated") else ""
    return f"run {report.facts.get('run_id')}: {made}{status}, {valid}"


def what(report: Report) -> str:
    trace, target = report.facts.get("trace") or {}, report.facts.get("target") or {}
    return f"{trace.get('name')} at {target.get('url')}, model {target.get('model')}"


def counts(report: Report) -> str:
    shares = ", ".join(f"{outcome.count} {outcome.name}" for outcome in report.outcomes)
    return f"{report.planned} planned: {shares}"


def held_least(report: Report) -> Injected | None:
    return worst(report.injected)


def broken_limits(report: Report) -> list[LimitVerdict]:
    """Overall: they decide the exit code."""
    overall = report.measured[0].label
    return [one for one in report.limits if one.window == overall and not one.kept]


def lateness(report: Report) -> str:
    overall = report.measured[0]
    late, ours = overall.distribution("lateness"), overall.distribution("dispatch_lateness")
    if late is None or ours is None:
        return "nothing was sent"
    return (
        f"lateness p50 {format_duration(late.p50)}, p99 {format_duration(late.p99)}, max "
        f"{format_duration(late.max)}; our own part p99 {format_duration(ours.p99)} (limit "
        f"{format_duration(report.validity.limit_s)})"
    )


def receipt(spans: Distribution) -> str:
    return (
        f"as the server saw it: received p50 {format_duration(spans.p50)}, p99 {format_duration(spans.p99)} after "
        "the planned send"
    )


def clock(offset: ClockOffset) -> str:
    side = "ahead of" if offset.offset_s > 0 else "behind"
    return (
        f"the server's clock is {format_duration(abs(offset.offset_s))} {side} ours, give or take "
        f"{format_duration(offset.residual_s)} (from {offset.num_exchanges} exchanges)"
    )


def warmup(report: Report) -> str | None:
    """What was sent before the start, which is in no figure."""
    facts = report.facts.get("warmup")
    if not facts:
        return None
    ended = ", ".join(f"{count} {name}" for name, count in facts["outcomes"].items())
    first, median = facts["first_latency_s"], facts["median_latency_s"]
    times = "" if first is None else f"; first {format_duration(first)}, median {format_duration(median)}"
    return f"warm-up: {ended}{times}; in no figure"


def in_unit(value: float | None, unit: str) -> str:
    if value is None:
        return "no value"
    if unit == "share":
        return f"{value:.1%}"
    return format_duration(value) if unit == "s" else f"{value:.2f}"


def most_telling(report: Report, measured: Sequence[Measures], most: int) -> list[Measures]:
    """So many at most: overall, baseline, the injection that held least and its recovery, then the first others."""
    of_interest = {"overall", "baseline"}
    if (least := held_least(report)) is not None:
        of_interest |= {least.label, f"recovery-{least.label.rpartition('-')[2]}"}
    ranked = sorted(measured, key=lambda measures: measures.label not in of_interest)
    kept = {measures.label for measures in ranked[:most]}
    return [measures for measures in measured if measures.label in kept]


def named(name: str, statistic: str | None) -> str:
    """A row's name: the metric with its statistic, or with its unit where the value does not carry it."""
    if statistic is not None:
        return f"{name} {statistic}"
    unit = BY_NAME[name].unit
    return f"{name} {unit}" if unit in ("req/s", "tokens/s") else name


def cell(measures: Measures, name: str, statistic: str | None) -> str:
    """A figure in its unit; `-` where there is none. statistic: None where the metric is one value."""
    figure = measures.figures.get(name)
    if statistic is not None:
        return format_duration(float(getattr(figure, statistic))) if isinstance(figure, Distribution) else "-"
    return in_unit(figure, BY_NAME[name].unit) if isinstance(figure, float) else "-"


def worker(facts: Mapping[str, Any]) -> str:
    """How one worker fared, from run.json; its lateness is our own part of it."""
    share = facts["cpu_s"] / facts["wall_s"] if facts["wall_s"] else 0.0
    lag_s, late_s, worst_s = (
        facts.get(name) for name in ("loop_lag_p99_s", "lateness_p99_s", "lateness_max_s")
    )
    lagged = "" if lag_s is None else f", loop lag p99 {format_duration(lag_s)}"
    late = (
        ""
        if late_s is None or worst_s is None
        else f", lateness p99 {format_duration(late_s)}, max {format_duration(worst_s)}"
    )
    opened, most = facts.get("num_connections"), facts.get("most_connections")
    held = "" if opened is None else f", {opened} connections opened, at most {most} at once"
    return f"worker {facts['worker']}: {share:.0%} of a core{lagged}{late}{held}"


def node(facts: Mapping[str, Any]) -> str:
    """Where workers of a cluster were, and how its clock stood to that of the machine that began the run."""
    workers = ", ".join(map(str, facts["workers"]))
    clock = facts["clock"]
    if clock is None:
        return f"node {facts['host']} ({facts['address']}), workers {workers}: its clock is not known"
    offset, unsure, drift, residual = (
        f"{clock[name] / 1e6:.3f}" for name in ("offset_ns", "uncertainty_ns", "drift_ns", "residual_ns")
    )
    return (
        f"node {facts['host']} ({facts['address']}), workers {workers}: its clock is {offset} ms ahead of ours "
        f"(±{unsure}; corrected), drifted {drift} ms, residual {residual} ms in {clock['num_checks']} checks"
    )
