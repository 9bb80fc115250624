"""Waiting: what requests waited for in the server, by rules with thresholds; or a device that only looks busy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from loadgen.report.device_reading import DeviceReading, device_reading
from loadgen.report.measures import OVERALL, Measures
from loadgen.report.verdict import Verdict

# A queue share above this means "waiting, not computing".
QUEUE_SHARE_HIGH = 0.5
# A queue share below this, of something slow, means "computing, not waiting".
QUEUE_SHARE_LOW = 0.2
# Of the share that waits in front of the preprocessing.
PREPROCESS_SHARE_HIGH = 0.3
# A mean batch this near to its limit: the batches are full, so the rate is above what they carry.
BATCH_FULL = 0.8
# Of the time in the queue, spent while a batch ran: where it had room, it is its end that they waited for.
BEHIND_HIGH = 0.5
# Where fewer of the computed rows are somebody's, batches are held by their longest answers.
USEFUL_LOW = 0.5
# Where no batch limit is told: a device this busy has no room, and one this idle has.
ACTIVE_HIGH, ACTIVE_LOW = 0.8, 0.6
# A device that looks busy (any kernel ran), but computes for less than this share of that time.
LAUNCH_ACTIVE = 0.7
LAUNCH_KERNELS = 0.5
# Above this, other programs have the cores, and a server on them is kept from computing.
HOST_BUSY = 0.9
# A cache this full has no place for another request; a server that preempts this share of requests neither.
KV_FULL = 0.9
PREEMPTED_HIGH = 0.01
JOIN_AND_LEAVE = "let requests join and leave running batches (continuous), or batch answers of like length"


def queue_share(measures: Measures) -> float | None:
    """By the stages of the answers; else by the server's own counters."""
    by_stages = measures.value("queue_share")
    return measures.value("server_queue_share") if by_stages is None else by_stages


def waiting(measures: Measures, facts: Mapping[str, Any] | None) -> Verdict | None:
    """What requests waited for, or None where they did not wait and the device computed."""
    device, queue = device_reading(measures, facts), queue_share(measures)
    batch, limit = measures.value("queued_mean_batch"), _flag(facts, "max_batch_size")
    batch_limit = float(limit) if isinstance(limit, int | float) else None
    is_full = None if batch is None or batch_limit is None else batch >= BATCH_FULL * batch_limit
    found: Verdict | None = None
    if (preprocess := _preprocessing(measures, facts)) is not None:
        found = Verdict(
            "preprocessing-bound", preprocess, "more preprocessing workers, apart from the scheduler"
        )
    elif (memory := _memory(measures, queue, is_full=is_full is True)) is not None:
        found = Verdict("memory-bound", memory, _MORE_MEMORY)
    elif (launch := _launch(measures, device)) is not None:
        found = Verdict("launch-bound", launch, _FEWER_LAUNCHES)
    elif queue is not None and queue >= QUEUE_SHARE_HIGH:
        evidence = f"{queue:.0%} of the server's time was waiting in queues, not computing"
        if batch is not None:
            of_limit = "" if batch_limit is None else f" of {batch_limit:g}"
            evidence += f"; batches held {batch:.1f}{of_limit} while requests waited"
        evidence += "" if device is None else f"; {device.words}"
        found = _queueing(evidence, measures, facts, is_full=is_full)
    if found is None or measures.label == OVERALL:
        return found
    return replace(found, evidence=f"in {measures.label}, {found.evidence}")


def _queueing(
    evidence: str, measures: Measures, facts: Mapping[str, Any] | None, *, is_full: bool | None
) -> Verdict:
    """is_full: of batches, while requests waited; None where it is not told, and the device decides."""
    device, useful = device_reading(measures, facts), measures.value("useful_row_share")
    is_wasteful = useful is not None and useful < USEFUL_LOW
    if is_wasteful:
        evidence += f"; {useful:.0%} of the rows that it computed were for answers that had not ended"
    if is_full is None and device is not None and not ACTIVE_LOW < device.active < ACTIVE_HIGH:
        is_full = device.active >= ACTIVE_HIGH
    if is_full is None:
        return Verdict(
            "saturated, or batching too conservative",
            evidence + "; which of the two needs the batch limit or the device's activity",
            "look at device activity: busy means saturated, idle means the policy",
        )
    if is_full:
        return Verdict(
            "saturated",
            evidence + ": more arrives than it carries",
            f"first {JOIN_AND_LEAVE}; then more capacity"
            if is_wasteful
            else "more capacity, or larger batches if memory allows",
        )
    behind, policy = measures.value("queued_behind_share"), (facts or {}).get("policy")
    if behind is not None and behind >= BEHIND_HIGH and policy not in (None, "continuous"):
        return Verdict(
            "head of line",
            f"{evidence}; {behind:.0%} of the wait in front of the engine was for running batches to end, which "
            "had room and let nobody join",
            JOIN_AND_LEAVE,
        )
    return Verdict(
        "batching too conservative",
        evidence + ": there was room",
        "let requests join running batches (continuous), shorten the wait or the window, or raise the token budget "
        "of a step",
    )


def _preprocessing(measures: Measures, facts: Mapping[str, Any] | None) -> str | None:
    # Inline, requests wait for the engine before they are preprocessed: the queue is the engine's.
    share = measures.value("preprocess_queue_share")
    if share is None or share < PREPROCESS_SHARE_HIGH or _flag(facts, "pipeline") == "inline":
        return None
    return f"{share:.0%} of the server's time was waiting for preprocessing"


_MORE_MEMORY = (
    "more memory for the cache (a smaller model or its quantised weights, a higher memory share, more devices), an "
    "8-bit cache, or shorter prompts and answers; larger batches would not help"
)
_FEWER_LAUNCHES = (
    "fewer and larger launches: captured graphs, compiled or fused kernels, larger batches, a faster host thread; "
    "a faster device would not help"
)


def _memory(measures: Measures, queue: float | None, *, is_full: bool) -> str | None:
    """Why the cache is what limits, or None. Full batches are limited by their own limit."""
    used, preempted = measures.value("kv_cache_share"), measures.value("preemptions")
    known = "" if used is None else f"the KV cache was up to {used:.0%} full"
    if preempted and measures.requests and preempted >= PREEMPTED_HIGH * measures.requests:
        return f"{known or 'the KV cache ran full'}, and running requests were put back {preempted:.0f} times"
    if used is None or used < KV_FULL or is_full or queue is None or queue < QUEUE_SHARE_LOW:
        return None
    return f"{known} while requests waited: {queue:.0%} of the server's time"


def _launch(measures: Measures, device: DeviceReading | None) -> str | None:
    if device is None or device.kernels is None or device.active < LAUNCH_ACTIVE:
        return None
    if device.kernels >= LAUNCH_KERNELS * device.active:
        return None
    if device.is_cpu and _had_no_core(measures, device):
        return None
    return f"{device.words}: between kernels it idles, and a panel that counts any kernel does not show it"


def _had_no_core(measures: Measures, device: DeviceReading) -> bool:
    """Whether steps computed so little because other programs had the cores."""
    waited = measures.value("engine_cpu_wait_share")
    if waited is not None:
        assert device.kernels is not None
        return device.kernels + waited >= LAUNCH_KERNELS * device.active
    # What the server does not tell can only be guessed from how busy its machine was.
    host = measures.value("host_cpu_share")
    return host is not None and host >= HOST_BUSY


def _flag(facts: Mapping[str, Any] | None, name: str) -> Any:
    """A flag of the bundled target, which tells them; None where a server does not."""
    flags = (facts or {}).get("flags")
    return flags.get(name) if isinstance(flags, Mapping) else None
