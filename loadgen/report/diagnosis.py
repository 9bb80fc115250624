"""Diagnosis: why the figures are as they are, by rules with thresholds; each verdict carries its evidence.

The reading goes from the top down: was the load ours to trust, was it refused, did requests wait or compute,
did some hold up others. What cannot be told from the run is said, not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadgen.durations import format_duration
from loadgen.report.device_reading import device_reading
from loadgen.report.figures import Missing
from loadgen.report.injected import WORSE_THAN_BASELINE, Injected, injected_windows, worst
from loadgen.report.limit import LimitVerdict
from loadgen.report.measures import Measures
from loadgen.report.validity import Validity
from loadgen.report.verdict import Verdict
from loadgen.report.waiting import JOIN_AND_LEAVE, QUEUE_SHARE_LOW, queue_share, waiting

MIN_REQUESTS = 20
REJECTED_SHARE_HIGH = 0.01
ERROR_RATE_HIGH = 0.01
# p99 this many times the mean: a few requests are held up by others,
TAIL_RATIO_HIGH = 3.0
# unless this share of their time is what answers of their length take.
TAIL_OWN_HIGH = 0.5
# Of the server's time spent after a request's last token, waiting for the rest of its batch.
RELEASE_SHARE_HIGH = 0.1
# Of the time from the send, spent outside of the server.
OUTSIDE_SHARE_HIGH = 0.5
# Token events that came in one read with the one before: buffered, unless the server itself sent them so fast,
COALESCED_HIGH = 0.5
# which it did if tokens took as long to come here as to be made. Quicker answers than this are nobody's buffer.
DELIVERY_LOW = 0.5
BUFFERED_MIN_S = 0.02
_TIMES = frozenset({"latency", "service_latency", "ttft", "service_ttft", "ttfat", "tpot", "chunk_gap"})


def diagnose(
    measured: Sequence[Measures],
    validity: Validity,
    target_facts: Mapping[str, Any] | None,
    limits: Sequence[LimitVerdict] = (),
) -> list[Verdict]:
    """Verdicts, the most basic first; never empty. measured: overall first, then windows.

    The first is the main cause; windows that did not hold come last, as what the causes did.
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
    verdicts += _failing(overall)
    latency = overall.distribution("latency")
    if latency is None or latency.count < MIN_REQUESTS:
        count = latency.count if latency else 0
        return [
            *verdicts,
            Verdict(
                "not enough evidence",
                f"{count} requests succeeded; {MIN_REQUESTS} are needed",
                "send a longer part of the trace"
                if overall.requests < MIN_REQUESTS
                else "see why so few succeeded",
            ),
        ]
    injected = injected_windows(measured)
    slow = _slow(measured, injected, limits)
    verdicts += _buffering(overall)
    verdicts += _inside(measured, injected, slow, target_facts)
    verdicts += _windows(injected)
    if verdicts:
        return verdicts
    if queue_share(overall) is None and not _is_held(overall, injected, limits):
        return [_untold(overall)]
    return [_healthy(overall, injected)]


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
                "read the failures' messages in the table before any latency; where they are of lengths (HTTP "
                "400), --max-input and --max-output cut what is asked for",
            )
        )
    return found


def _buffering(overall: Measures) -> list[Verdict]:
    """Tokens made one by one that came in lumps. Where no stages are told, the server's own lumps look the same."""
    coalesced, delivery = overall.value("coalesced_share"), overall.value("delivery_share")
    service = overall.distribution("service_latency")
    if coalesced is None or coalesced < COALESCED_HIGH or service is None or service.p50 < BUFFERED_MIN_S:
        return []
    if delivery is not None and delivery > DELIVERY_LOW:
        return []
    told = (
        "; the server tells no stages, so it may send several tokens at once itself"
        if delivery is None
        else f"; tokens came within {delivery:.0%} of the time they were made in"
    )
    return [
        Verdict(
            "network or proxy buffering",
            f"{coalesced:.0%} of the token events came in one read with the one before{told}: TTFT is late and "
            "gaps between tokens are not the server's",
            "ask the server without what stands in front of it; turn buffering off there (nginx: proxy_buffering "
            "off, or the header X-Accel-Buffering: no) and compression of event streams, too",
        )
    ]


@dataclass(frozen=True, slots=True)
class _Slow:
    """Something that took too long: in words, and the window (or the whole run) to look into."""

    words: str
    measures: Measures


def _slow(
    measured: Sequence[Measures], injected: Sequence[Injected], limits: Sequence[LimitVerdict]
) -> list[_Slow]:
    """Told by a limit on a time that broke, or a peak beside the baseline."""
    overall = measured[0]
    found = [
        _Slow(f"{verdict.limit.text} is broken: {format_duration(verdict.value)}", overall)
        for verdict in limits
        if verdict.kept is False
        and verdict.value is not None
        and verdict.window == overall.label
        and verdict.limit.metric in _TIMES
    ]
    for one in sorted(injected, key=lambda one: -(one.times_baseline or 0.0)):
        if one.times_baseline is not None and one.times_baseline > WORSE_THAN_BASELINE:
            (home,) = [measures for measures in measured if measures.label == one.label]
            found.append(_Slow(f"in {one.label}: {one.words}", home))
    return found


def _inside(
    measured: Sequence[Measures],
    injected: Sequence[Injected],
    slow: Sequence[_Slow],
    facts: Mapping[str, Any] | None,
) -> list[Verdict]:
    """What requests did in the server: over the whole run, else in the injected window that took longest."""
    overall = measured[0]
    steady = next((m for m in measured if m.label == "baseline"), overall) if injected else overall
    waited, released = waiting(overall, facts), _released(overall)
    # A batch that waits for its longest answer has room that nobody may take: not the policy's caution.
    if released and waited is not None and waited.name in ("batching too conservative", "head of line"):
        waited = None
    found = ([] if waited is None else [waited]) + released or _tail(overall, steady)
    for one in slow:
        if not found and one.measures is not overall and (waited := waiting(one.measures, facts)) is not None:
            found = [waited]
    return found or _computing(slow, facts)


def _released(overall: Measures) -> list[Verdict]:
    """Head of line where the server tells when a request's last token was ready."""
    held = overall.value("release_share")
    if held is None or held < RELEASE_SHARE_HIGH:
        return []
    return [
        Verdict(
            "head of line",
            f"{held:.0%} of the server's time answers were ready and waited for the longest in their batch",
            JOIN_AND_LEAVE,
        )
    ]


def _tail(overall: Measures, steady: Measures) -> list[Verdict]:
    """Head of line by its tail: that of steady, since what a peak does to its own requests is no head of line.

    Nor are answers that are long themselves.
    """
    latency, own = steady.distribution("latency"), steady.value("tail_own_share")
    if latency is None or latency.count < MIN_REQUESTS or latency.p99 < TAIL_RATIO_HIGH * latency.mean:
        return []
    if own is not None and own >= TAIL_OWN_HIGH:
        return []
    where = "" if steady is overall else f" in the {steady.label}"
    explained = "" if own is None else f", and their own length explains {own:.0%} of the slowest"
    return [
        Verdict(
            "head of line",
            f"p99 latency {format_duration(latency.p99)}{where} is {latency.p99 / latency.mean:.1f} times the mean "
            f"{format_duration(latency.mean)}{explained}: some requests are held up, by long answers in their "
            "batch or by bursts in front of them",
            "look at the time line: if the tail follows the load it is bursts; if it is everywhere, compare a "
            "policy that lets requests leave a batch (continuous)",
        )
    ]


def _computing(slow: Sequence[_Slow], facts: Mapping[str, Any] | None) -> list[Verdict]:
    """Slow, though little was waiting."""
    for one in slow:
        measures = one.measures
        queue, outside = queue_share(measures), measures.value("outside_share")
        if queue is None:
            return [_untold(measures, f"{one.words}; ")]
        if queue >= QUEUE_SHARE_LOW or (measures.value("release_share") or 0.0) >= RELEASE_SHARE_HIGH:
            continue
        if outside is not None and outside >= OUTSIDE_SHARE_HIGH:
            return [
                Verdict(
                    "outside the server",
                    f"{one.words}; {outside:.0%} of the time from the send was spent outside of the server",
                    "look at the network, at what stands in front of the server, and at its accept queue",
                )
            ]
        device = device_reading(measures, facts)
        busy = (
            "whether the device is busy or idles between kernels cannot be told without its own metrics"
            if device is None
            else device.words
        )
        return [
            Verdict(
                "compute-bound",
                f"{one.words}; only {queue:.0%} of the server's time was waiting in queues: the computation itself "
                f"is slow; {busy}",
                "a faster device or a lighter model, shorter prompts or answers; more batching would not help",
            )
        ]
    return []


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


def _is_held(overall: Measures, injected: Sequence[Injected], limits: Sequence[LimitVerdict]) -> bool:
    """Whether something that was asked of the run speaks for it: a limit on a time, or an injection."""
    if injected:
        return all(one.has_held for one in injected)
    judged = [one for one in limits if one.window == overall.label and one.limit.metric in _TIMES]
    return bool(judged) and all(one.kept for one in judged)


def _untold(measures: Measures, words: str = "") -> Verdict:
    missing = measures.figures.get("queue_share")
    reason = missing.reason if isinstance(missing, Missing) else "unknown"
    return Verdict(
        "not enough evidence",
        f"{words}how much of the time was waiting, and how much computing, cannot be told ({reason}, and its "
        "/metrics no time in queues)",
        "read the server's own metrics beside the run (--server-metrics), or give limits (--slo) or a peak",
    )


def _healthy(overall: Measures, injected: Sequence[Injected]) -> Verdict:
    latency, queue = overall.distribution("latency"), queue_share(overall)
    assert latency is not None
    waiting = "" if queue is None else f", {queue:.0%} of the server's time waiting"
    return Verdict(
        "healthy",
        f"p99 latency {format_duration(latency.p99)} at a mean of {format_duration(latency.mean)}{waiting}"
        + ("; injected windows held" if injected and all(one.has_held for one in injected) else ""),
        "raise --peak-factor or --speedup to find where it stops holding",
    )
