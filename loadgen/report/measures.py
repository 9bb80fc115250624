"""Measures: every metric of a run, overall and for each window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.plan.schedule import Window
from loadgen.replay.request_record import Outcome
from loadgen.report.figures import Distribution, Figure, Floats, Missing, distribution, share
from loadgen.report.observations import Mask, Observations
from loadgen.report.recovery import recovery_s

OVERALL = "overall"

_NO_SUCCESS = "no request succeeded"
_NO_STREAM = "no successful answer was a stream with the tokens that this needs"
_NOT_SENT = "nothing was sent"
_NO_STAGES = "the server tells no stages"


@dataclass(frozen=True, slots=True)
class Measures:
    """All metrics by name over one set of requests.

    label: overall, or a window's. spans: (start_s, end_s) of its stretches. requests: planned in it.
    """

    label: str
    spans: tuple[tuple[float, float], ...]
    requests: int
    figures: dict[str, Figure]

    @property
    def duration_s(self) -> float:
        return sum(end_s - start_s for start_s, end_s in self.spans)

    def distribution(self, name: str) -> Distribution | None:
        figure = self.figures.get(name)
        return figure if isinstance(figure, Distribution) else None

    def value(self, name: str) -> float | None:
        figure = self.figures.get(name)
        return figure if isinstance(figure, float) else None


def measure(seen: Observations, windows: Sequence[Window], run_end_s: float) -> list[Measures]:
    """Overall first, then each window label in order of its first appearance.

    The overall rates are over the planned run, which ends with its last window, or where it was cut short.
    """
    planned_end_s = windows[-1].end_ns / 1e9
    end_s = min(planned_end_s, run_end_s)
    everything = np.ones(seen.records.num_rows, dtype=bool)
    measured = [_measure(seen, OVERALL, everything, ((0.0, end_s),))]
    for label in dict.fromkeys(window.label for window in windows):
        spans = tuple((w.start_ns / 1e9, min(w.end_ns / 1e9, end_s)) for w in windows if w.label == label)
        spans = tuple((start, end) for start, end in spans if end > start)
        measured.append(_measure(seen, label, np.asarray(seen.window == label), spans))
    for window in windows:
        if window.label.startswith(("peak", "burst")):
            (home,) = [measures for measures in measured if measures.label == window.label]
            home.figures["recovery_s"] = recovery_s(seen, window, windows)
    return measured


def _measure(seen: Observations, label: str, mask: Mask, spans: tuple[tuple[float, float], ...]) -> Measures:
    figures: dict[str, Figure] = {}
    reasons = {"latency": _NO_SUCCESS, "service_latency": _NO_SUCCESS}
    for name, values in seen.per_request.items():
        missing = _NOT_SENT if "lateness" in name else reasons.get(name, _NO_STREAM)
        figures[name] = distribution(values[mask], missing)
    figures["chunk_gap"] = distribution(seen.chunk_gaps_s(mask), _NO_STREAM)
    duration_s = sum(end_s - start_s for start_s, end_s in spans)
    empty = "the window has no length"
    # What a run that was cut short never came to was not offered.
    offered = mask & _within(seen.planned_s, spans)
    figures["offered_rate"] = share(float(offered.sum()), duration_s, empty)
    figures["served_rate"] = share(float((mask & seen.is_ok).sum()), duration_s, empty)
    figures["output_token_rate"] = _token_rate(seen, spans, duration_s)
    decided = mask & seen.is_decided
    undecided = "no request was decided by the target"
    figures["error_rate"] = share(float((decided & ~seen.is_ok).sum()), float(decided.sum()), undecided)
    is_rejected = np.asarray(seen.outcome == Outcome.REJECTED.value)
    figures["rejected_share"] = share(float((decided & is_rejected).sum()), float(decided.sum()), undecided)
    figures |= _server_figures(seen, mask)
    return Measures(label, spans, int(mask.sum()), figures)


def _token_rate(
    seen: Observations, spans: tuple[tuple[float, float], ...], duration_s: float
) -> float | Missing:
    moments, tokens = seen.token_arrivals
    inside = _within(moments, spans)
    return share(float(tokens[inside].sum()), duration_s, "the window has no length")


def _within(moments: Floats, spans: tuple[tuple[float, float], ...]) -> Mask:
    inside = np.zeros(moments.shape, dtype=bool)
    for start_s, end_s in spans:
        inside |= (moments >= start_s) & (moments < end_s)
    return inside


def _server_figures(seen: Observations, mask: Mask) -> dict[str, Figure]:
    """Queue shares over sums, so that long requests weigh what they weigh; null without stages."""
    known = mask & ~np.isnan(seen.seconds("server_finished_us"))

    def total(until: str, since: str | None = None) -> float:
        spans: Floats = seen.seconds(f"server_{until}_us")[known]
        return float((spans - seen.seconds(f"server_{since}_us")[known]).sum() if since else spans.sum())

    whole = total("finished")
    preprocess, inference = total("pre_start", "parsed"), total("exec_start", "enqueued")
    batches = seen.numbers("server_mean_batch")[known]
    waits = (
        seen.seconds("server_exec_start_us")
        - seen.seconds("server_enqueued_us")
        + seen.seconds("server_pre_start_us")
        - seen.seconds("server_parsed_us")
    )[known]
    told = ~np.isnan(batches)
    batches, waits = batches[told], waits[told]
    return {
        "queue_share": share(preprocess + inference, whole, _NO_STAGES),
        "preprocess_queue_share": share(preprocess, whole, _NO_STAGES),
        "inference_queue_share": share(inference, whole, _NO_STAGES),
        "release_share": share(total("finished", "last_token"), whole, _NO_STAGES),
        "mean_batch": float(batches.mean()) if batches.size else Missing(_NO_STAGES),
        "queued_mean_batch": share(float((batches * waits).sum()), float(waits.sum()), "no request waited"),
    }
