"""Diagnosis: why the figures are as they are, by rules with thresholds; each verdict carries its evidence.

The reading goes from the top down: was the load ours to trust, was it refused, did requests wait or compute,
did some hold up others. What cannot be told from the run is said, not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.durations import format_duration
from loadgen.report.figures import Missing
from loadgen.report.injected import WORSE_THAN_BASELINE, Injected, injected_windows, worst
from loadgen.report.limit import LimitVerdict
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
# A queue share below this, of something slow, means "computing, not waiting".
QUEUE_SHARE_LOW = 0.2
# Of the time from the send, spent outside of the server.
OUTSIDE_SHARE_HIGH = 0.5
# Of the server's time spent after a request's last token, waiting for the rest of its batch.
RELEASE_SHARE_HIGH = 0.1
MIN_REQUESTS = 20
_TIMES = frozenset({"latency", "service_latency", "ttft", "service_ttft", "ttfat", "tpot", "chunk_gap"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """name: of the cause. evidence: its numbers, in words. next_step: what to try, or how to find out."""

    name: str
    evidence: str
    next_step: str


def diagnose(
    measured: Sequence[Measures],
    validity: Validity,
    target_facts: Mapping[str, Any] | None,
    limits: Sequence[LimitVerdict] = (),
) -> list[Verdict]:
    """Verdicts, the most basic first; never empty. measured: overall first, then windows.

    target_facts: what the target tells of itself; limits: what broke them is slow.
    """
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
                "send a longer part of the trace"
                if overall.requests < MIN_REQUESTS
                else "see why so few succeeded",
            ),
        ]
    verdicts += _failing(overall)
    verdicts += _waiting(measured, target_facts)
    injected = injected_windows(measured)
    steady = next((m for m in measured if m.label == "baseline"), overall) if injected else overall
    verdicts += _held_up(overall, steady)
    verdicts += _computing(measured, injected, limits)
    verdicts += _windows(injected)
    if not verdicts:
        return [_healthy(overall, injected)]
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
                f"{errors - (rejected or 0.0):.1%} of the requests failed{' otherwise' if rejected else ''}; "
                "the outcomes name how",
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


def _held_up(overall: Measures, steady: Measures) -> list[Verdict]:
    """Head of line: seen where the server tells when a request's last token was ready, else in the tail.

    The tail is that of steady: what a peak does to its own requests is no head of line.
    """
    held = overall.value("release_share")
    if held is not None and held >= RELEASE_SHARE_HIGH:
        return [
            Verdict(
                "head of line",
                f"{held:.0%} of the server's time answers were ready and waited for the longest in their batch",
                "let requests leave a batch as they end (continuous), or batch answers of like length",
            )
        ]
    latency = steady.distribution("latency")
    if latency is None or latency.count < MIN_REQUESTS or latency.p99 < TAIL_RATIO_HIGH * latency.mean:
        return []
    where = "" if steady is overall else f" in the {steady.label}"
    return [
        Verdict(
            "head of line",
            f"p99 latency {format_duration(latency.p99)}{where} is {latency.p99 / latency.mean:.1f} times the mean "
            f"{format_duration(latency.mean)}: some requests are held up, by long answers in their batch or by "
            "bursts in front of them",
            "look at the time line: if the tail follows the load it is bursts; if it is everywhere, compare a "
            "policy that lets requests leave a batch (continuous)",
        )
    ]


def _windows(injected: Sequence[Injected]) -> list[Verdict]:
    """One verdict on all injected windows that did not hold, and one on those that did not recover."""
    found: list[Verdict] = []
    broken = [one for one in injected if one.has_held is False]
    if (held_least := worst(broken)) is not None:
        found.append(
            Verdict(
                f"{held_least.label} did not hold",
                f"{held_least.words}; {held_least.recovery_words}{_of(broken, injected)}",
                "this is what users see when the peak comes: compare policies and limits in this window",
            )
        )
    stuck = [one for one in injected if one.has_recovered is False]
    if stuck:
        found.append(
            Verdict(
                f"{stuck[0].label} not recovered",
                "the rolling p99 latency did not come back to within 10 % of the baseline before it"
                + _of(stuck, injected),
                "the backlog outlives its cause: refuse earlier (a lower high water), or add capacity",
            )
        )
    return found


def _of(those: Sequence[Injected], injected: Sequence[Injected]) -> str:
    return f" ({len(those)} of {len(injected)} injected windows)" if len(injected) > 1 else ""


def _computing(
    measured: Sequence[Measures], injected: Sequence[Injected], limits: Sequence[LimitVerdict]
) -> list[Verdict]:
    """Slow, though little was waiting. Slow is told by a limit that broke, or a peak beside the baseline."""
    slow: list[tuple[str, Measures]] = []
    for one in injected:
        if one.times_baseline is not None and one.times_baseline > WORSE_THAN_BASELINE:
            (home,) = [measures for measures in measured if measures.label == one.label]
            slow.append((f"in {one.label}: {one.words}", home))
    overall = measured[0]
    for verdict in limits:
        if verdict.kept is False and verdict.window == overall.label and verdict.limit.metric in _TIMES:
            assert verdict.value is not None
            slow.insert(0, (f"{verdict.limit.text} is broken: {format_duration(verdict.value)}", overall))
    for words, measures in slow:
        queue, outside = measures.value("queue_share"), measures.value("outside_share")
        held = measures.value("release_share") or 0.0
        if queue is None or queue >= QUEUE_SHARE_LOW or held >= RELEASE_SHARE_HIGH:
            continue
        if outside is not None and outside >= OUTSIDE_SHARE_HIGH:
            return [
                Verdict(
                    "outside the server",
                    f"{words}; {outside:.0%} of the time from the send was spent outside of the server",
                    "look at the network, at what stands in front of the server, and at its accept queue",
                )
            ]
        return [
            Verdict(
                "compute-bound",
                f"{words}; only {queue:.0%} of the server's time was waiting in queues: the computation itself "
                "is slow",
                "a faster device or a lighter model, shorter prompts or answers; whether the device is busy or "
                "idles between kernels cannot be told without its own metrics",
            )
        ]
    return []


def _healthy(overall: Measures, injected: Sequence[Injected]) -> Verdict:
    latency, queue = overall.distribution("latency"), overall.value("queue_share")
    assert latency is not None
    waiting = "" if queue is None else f", {queue:.0%} of the server's time waiting"
    return Verdict(
        "healthy",
        f"p99 latency {format_duration(latency.p99)} at a mean of {format_duration(latency.mean)}{waiting}"
        + ("; injected windows held" if injected and all(one.has_held for one in injected) else ""),
        "raise --peak-factor or --speedup to find where it stops holding",
    )


def _flag(facts: Mapping[str, Any] | None, name: str) -> Any:
    """A flag of the bundled target, which tells them; None where a server does not."""
    flags = (facts or {}).get("flags")
    return flags.get(name) if isinstance(flags, Mapping) else None
