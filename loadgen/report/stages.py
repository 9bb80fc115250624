"""Stages: where a request's time went, from planned to last token, in parts that add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loadgen.report.clock_offset import ClockOffset, clock_offset, received_s
from loadgen.report.figures import Distribution, Floats, Missing, distribution
from loadgen.report.observations import Observations

# Name, until, since: moments of the server, in its own time from receipt (None).
_SERVER_PARTS = (
    ("receive and parse", "parsed", None),
    ("preprocess queue", "pre_start", "parsed"),
    ("preprocess", "pre_end", "pre_start"),
    ("hand-over", "enqueued", "pre_end"),
    ("inference queue", "exec_start", "enqueued"),
    ("prefill", "first_token", "exec_start"),
    ("decode", "last_token", "first_token"),
    ("release and postprocess", "finished", "last_token"),
)


@dataclass(frozen=True, slots=True)
class Stages:
    """Time in each part, over the answers whose server tells stages, in order; the parts sum to latency.

    parts: (name, distribution in s). The client's wait comes first; "network and client" is what is left of the
    latency, so that the sum holds. "release and postprocess" is from a request's last token to its end: under
    a policy that releases a whole batch at once, the wait for the batch's longest answer.
    """

    parts: tuple[tuple[str, Distribution], ...]
    latency: Distribution


def stages(seen: Observations) -> Stages | Missing:
    """The breakdown, or why there is none."""
    known = seen.has_stages & ~np.isnan(seen.per_request["service_latency"])
    if not known.any():
        return Missing(seen.why_no_stages)
    latency = seen.per_request["latency"][known]
    parts: list[tuple[str, Floats]] = [("wait in the generator", seen.per_request["lateness"][known])]
    for name, until, since in _SERVER_PARTS:
        moment = seen.seconds(f"server_{until}_us")[known]
        parts.append((name, moment - seen.seconds(f"server_{since}_us")[known] if since else moment))
    parts.append(("network and client", latency - sum(spans for _, spans in parts)))
    found = [(name, distribution(spans, "")) for name, spans in parts]
    whole = distribution(latency, "")
    assert isinstance(whole, Distribution)
    return Stages(tuple((name, spans) for name, spans in found if isinstance(spans, Distribution)), whole)


def receipt_lateness(seen: Observations, started_unix_ns: int | None) -> Distribution | Missing:
    """Server receipt minus planned, in s: lateness as the server saw it, by its own clock.

    Where that differs from ours by more than the requests leave open, the difference is taken off.
    """
    offset = clock_offset(seen, started_unix_ns)
    if started_unix_ns is None:
        return Missing("the run was not started")
    is_another = isinstance(offset, ClockOffset) and abs(offset.offset_s) > offset.residual_s
    correction_s = offset.offset_s if isinstance(offset, ClockOffset) and is_another else 0.0
    since_planned_s = received_s(seen, started_unix_ns) - seen.planned_s - correction_s
    return distribution(since_planned_s, "the server does not tell when it had a request")
