"""Diagnosis: why the figures are as they are, by rules with thresholds; each verdict carries its evidence.

The reading goes from the top down: was the load ours to trust, was it refused, did requests wait or compute,
did some hold up others. What cannot be told from the run is said, not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.durations import format_duration
from loadgen.report.figures import Distribution, Missing
from loadgen.report.measures import Measures
from loadgen.report.validity import Validity

# A queue share above this means "waiting, not computing".
QUEUE_SHARE_HIGH = 0.5
# Of the share that waits in front of the preprocessing.
PREPROCESS_SHARE_HIGH = 0.3
# p99 this many times the mean: a few requests are held up by others.
TAIL_RATIO_HIGH = 3.0
REJECTED_SHARE_HIGH = 0.01
ERROR_RATE_HIGH = 0.01
# A mean batch this near to its limit: the batches are full, so the rate is above what they carry.
BATCH_FULL = 0.8
# A window whose p99 is this many times the baseline's did not hold.
WORSE_THAN_BASELINE = 1.5
# Of the server's time spent after a request's last token, waiting for the rest of its batch.
RELEASE_SHARE_HIGH = 0.1
MIN_REQUESTS = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """name: of the cause. evidence: its numbers, in words. next_step: what to try, or how to find out."""

    name: str
    evidence: str
    next_step: str


def diagnose(
    measured: Sequence[Measures], validity: Validity, target_facts: Mapping[str, Any] | None
) -> list[Verdict]:
    """Verdicts, the most basic first; never empty. measured: overall first, then windows."""
    overall = measured[0]
    verdicts: list[Verdict] = []
    if not validity.is_valid:
        verdicts.append(
            Verdict(
                "generator-bound",
                "; ".join(validity.reasons),
                "send from a quieter or larger machine, use --workers, or lower the rate; do not judge the target "
                "by this run",
            )
        )
    latency = overall.distribution("latency")
    if latency is None or latency.count < MIN_REQUESTS:
        count = latency.count if latency else 0
        return [
            *verdicts,
            *_failing(overall),
            Verdict(
                "not enough evidence",
                f"{count} requests succeeded; {MIN_REQUESTS} are needed",
                "send a longer part of the trace",
            ),
        ]
    verdicts += _failing(overall)
    verdicts += _waiting(measured, target_facts)
    verdicts += _held_up(overall, latency)
    verdicts += _windows(measured)
    if not verdicts:
        return [_healthy(overall)]
    return verdicts


def _failing(overall: Measures) -> list[Verdict]:
    rejected, errors = overall.value("rejected_share"), overall.value("error_rate")
    found: list[Verdict] = []
    if rejected is not None and rejected >= REJECTED_SHARE_HIGH:
        found.append(
            Verdict(
                "rejecting",
                f"{rejected:.1%} of the requests were refused (429 or 503): the queue was over its high water",
                "add capacity or shed load on purpose; a deeper queue only trades refusals for latency",
            )
        )
    if errors is not None and errors - (rejected or 0.0) >= ERROR_RATE_HIGH:
        found.append(
            Verdict(
                "failing",
                f"{errors - (rejected or 0.0):.1%} of the requests failed otherwise; the outcomes name how",
                "read the failures' messages in the table before any latency",
            )
        )
    return found


def _waiting(measured: Sequence[Measures], facts: Mapping[str, Any] | None) -> list[Verdict]:
    overall, limit = measured[0], _flag(facts, "max_batch_size")
    batch_limit = limit if isinstance(limit, int | float) else None
    queue = overall.value("queue_share")
    if queue is None:
        missing = overall.figures.get("queue_share")
        reason = missing.reason if isinstance(missing, Missing) else "unknown"
        return [
            Verdict(
                "waiting or computing: unknown",
                f"the split cannot be told ({reason})",
                "read the server's own queue metrics beside this report",
            )
        ]
    # Inline, requests wait for the engine before they are preprocessed: the queue is the engine's.
    is_inline = _flag(facts, "pipeline") == "inline"
    preprocess = 0.0 if is_inline else overall.value("preprocess_queue_share") or 0.0
    batch = overall.value("queued_mean_batch")
    batch_words = (
        ""
        if batch is None
        else f"; batches held {batch:.1f}" + (f" of {batch_limit:g}" if batch_limit else "")
    )
    if preprocess >= PREPROCESS_SHARE_HIGH:
        return [
            Verdict(
                "preprocessing-bound",
                f"{preprocess:.0%} of the server's time was waiting for preprocessing",
                "more preprocessing workers, apart from the scheduler",
            )
        ]
    if queue < QUEUE_SHARE_HIGH:
        return []
    evidence = f"{queue:.0%} of the server's time was waiting in queues, not computing{batch_words}"
    if batch is not None and batch_limit:
        if batch >= BATCH_FULL * batch_limit:
            return [
                Verdict(
                    "saturated",
                    evidence + " while requests waited: more arrives than full batches carry",
                    "more capacity, or larger batches if memory allows",
                )
            ]
        return [
            Verdict(
                "batching too conservative",
                evidence + " while requests waited: there was room",
                "let requests join running batches (continuous), shorten the wait or the window, or raise the "
                "token budget of a step",
            )
        ]
    return [
        Verdict(
            "saturated, or batching too conservative",
            evidence + "; which of the two needs the batch limit or the device's activity",
            "look at device activity: busy means saturated, idle means the policy",
        )
    ]


def _held_up(overall: Measures, latency: Distribution) -> list[Verdict]:
    """Head of line: seen where the server tells when a request's last token was ready, else in the tail."""
    held = overall.value("release_share")
    if held is not None and held >= RELEASE_SHARE_HIGH:
        return [
            Verdict(
                "head of line",
                f"{held:.0%} of the server's time answers were ready and waited for the longest in their batch",
                "let requests leave a batch as they end (continuous), or batch answers of like length",
            )
        ]
    ratio = latency.p99 / latency.mean
    if ratio < TAIL_RATIO_HIGH:
        return []
    return [
        Verdict(
            "head of line",
            f"p99 latency {format_duration(latency.p99)} is {ratio:.1f} times the mean "
            f"{format_duration(latency.mean)}: some requests are held up, by long answers in their batch or by "
            "bursts in front of them",
            "look at the windows: if the tail sits in the peak it is the burst; if it is everywhere, compare a "
            "policy that lets requests leave a batch (continuous)",
        )
    ]


def _windows(measured: Sequence[Measures]) -> list[Verdict]:
    by_label = {measures.label: measures for measures in measured}
    base = by_label["baseline"].distribution("latency") if "baseline" in by_label else None
    found: list[Verdict] = []
    for label, measures in by_label.items():
        latency = measures.distribution("latency")
        if not label.startswith(("peak", "burst")) or latency is None or base is None:
            continue
        if latency.p99 > WORSE_THAN_BASELINE * base.p99:
            recovery = measures.figures.get("recovery_s")
            back = (
                f"back to normal {format_duration(recovery)} after it"
                if isinstance(recovery, float)
                else f"recovery: {recovery.reason}"
                if isinstance(recovery, Missing)
                else "recovery unknown"
            )
            found.append(
                Verdict(
                    f"{label} did not hold",
                    f"p99 latency {format_duration(latency.p99)} against {format_duration(base.p99)} in the "
                    f"baseline; {back}",
                    "this is what users see when the peak comes: compare policies and limits in this window",
                )
            )
    return found


def _healthy(overall: Measures) -> Verdict:
    latency, queue = overall.distribution("latency"), overall.value("queue_share")
    assert latency is not None
    waiting = "" if queue is None else f", {queue:.0%} of the server's time waiting"
    return Verdict(
        "healthy",
        f"p99 latency {format_duration(latency.p99)} at a mean of {format_duration(latency.mean)}{waiting}; "
        "injected windows held",
        "raise --peak-factor or --speedup to find where it stops holding",
    )


def _flag(facts: Mapping[str, Any] | None, name: str) -> Any:
    """A flag of the bundled target, which tells them; None where a server does not."""
    flags = (facts or {}).get("flags")
    return flags.get(name) if isinstance(flags, Mapping) else None
