"""Measures: every metric of a run, overall and for each window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.plan.schedule import Window
from loadgen.replay.request_record import Outcome
from loadgen.report.executing import Executing
from loadgen.report.figures import (
    Distribution,
    Figure,
    Floats,
    Missing,
    distribution,
    distribution_of_ordered,
    share,
)
from loadgen.report.goodput import Bound, is_good
from loadgen.report.observations import Mask, Observations
from loadgen.report.recovery import longest, recoveries

OVERALL = "overall"
# The tail that tail_own_share is of.
_SLOWEST = 0.05

_NO_SUCCESS = "no request succeeded"
_NO_STREAM = "no successful answer was a stream with the tokens that this needs"
_NOT_SENT = "nothing was sent"


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


def measure(
    seen: Observations,
    windows: Sequence[Window],
    run_end_s: float,
    planned_s: Floats | None = None,
    bounds: Sequence[Bound] = (),
) -> list[Measures]:
    """Overall first, then each window label in order of its first appearance.

    The overall rates are over the planned run, which ends with its last window, or where it was cut short.
    planned_s: all planned moments, where a killed run has fewer records. bounds: of goodput, which has no value
    without.
    """
    end_s = min(windows[-1].end_ns / 1e9, run_end_s)
    offered_s = seen.planned_s if planned_s is None else planned_s
    tokens = _tokens_in(seen, windows, end_s)
    executing = Executing(*(moments[seen.has_stages] for moments in _moments(seen, "exec_start", "finished")))

    def of(
        those: Observations, label: str, spans: tuple[tuple[float, float], ...], arrived: float
    ) -> Measures:
        return _measure(those, label, spans, offered_s, arrived, bounds, executing)

    measured = [of(seen, OVERALL, ((0.0, end_s),), sum(tokens.values()))]
    spans_of: dict[str, list[tuple[float, float]]] = {window.label: [] for window in windows}
    for window in windows:
        start_s, until_s = window.start_ns / 1e9, min(window.end_ns / 1e9, end_s)
        if until_s > start_s:
            spans_of[window.label].append((start_s, until_s))
    found = {
        label: of(those, label, tuple(spans_of[label]), tokens[label])
        for label, those in seen.by_window()
        if label in spans_of
    }
    nothing = Observations(seen.records.slice(0, 0))
    for label, spans in spans_of.items():
        if label not in found:
            found[label] = of(nothing, label, tuple(spans), tokens[label])
        measured.append(found[label])
    recovered = recoveries(seen, windows)
    measured[0].figures["recovery_s"] = longest(recovered)
    for measures in measured[1:]:
        if measures.label in recovered:
            measures.figures["recovery_s"] = recovered[measures.label]
    return measured


def _measure(
    seen: Observations,
    label: str,
    spans: tuple[tuple[float, float], ...],
    offered_s: Floats,
    arrived_tokens: float,
    bounds: Sequence[Bound],
    executing: Executing,
) -> Measures:
    """seen: what was planned in it. offered_s, executing: of all requests. arrived_tokens: within its spans."""
    figures: dict[str, Figure] = {}
    reasons = {"latency": _NO_SUCCESS, "service_latency": _NO_SUCCESS}
    for name, values in seen.per_request.items():
        missing = _NOT_SENT if "lateness" in name else reasons.get(name, _NO_STREAM)
        figures[name] = distribution(values, missing)
    figures["chunk_gap"] = distribution_of_ordered(seen.chunk_gaps_us(), _NO_STREAM, divisor=1e6)
    latency, waits = seen.per_request["latency"], seen.per_request["lateness"]
    both = ~np.isnan(latency) & ~np.isnan(waits)
    figures["client_wait"] = share(float(waits[both].sum()), float(latency[both].sum()), _NO_SUCCESS)
    duration_s = sum(end_s - start_s for start_s, end_s in spans)
    empty = "the window has no length"
    # What a run that was cut short never came to was not offered.
    offered = _within(offered_s, spans)
    figures["offered_rate"] = share(float(offered.sum()), duration_s, empty)
    figures["served_rate"] = share(float(seen.is_ok.sum()), duration_s, empty)
    figures["output_token_rate"] = share(arrived_tokens, duration_s, empty)
    decided, undecided = float(seen.is_decided.sum()), "no request was decided by the target"
    figures["error_rate"] = share(float((seen.is_decided & ~seen.is_ok).sum()), decided, undecided)
    reached = _within(seen.planned_s, spans)
    figures["goodput"] = (
        share(float((is_good(seen, bounds) & reached).sum()), float(reached.sum()), "no request was planned")
        if bounds
        else Missing("no --goodput says what is good")
    )
    rejected = float((seen.outcome == Outcome.REJECTED.value).sum())
    figures["rejected_share"] = share(rejected, decided, undecided)
    figures |= _server_figures(seen, executing)
    figures |= _delivery_figures(seen)
    return Measures(label, spans, seen.records.num_rows, figures)


def _tokens_in(seen: Observations, windows: Sequence[Window], end_s: float) -> dict[str, float]:
    """Tokens by the label of the window they arrived in; those after end_s in none."""
    edges = np.minimum([0.0, *(window.end_ns / 1e9 for window in windows)], end_s)
    totals: dict[str, float] = {}
    for window, arrived in zip(windows, seen.tokens_between(edges), strict=True):
        totals[window.label] = totals.get(window.label, 0.0) + float(arrived)
    return totals


def _within(moments: Floats, spans: tuple[tuple[float, float], ...]) -> Mask:
    """Whether each moment is in one of the spans, which ascend and do not overlap."""
    edges = np.array([edge for span in spans for edge in span], dtype=np.float64)
    # An odd place is behind a start and before its end.
    return np.asarray(np.searchsorted(edges, moments, side="right") % 2 == 1, dtype=bool)


def _moments(seen: Observations, *stages: str) -> list[Floats]:
    """When each request reached these stages in the server, in s on the run's clock, the way there left out."""
    return [seen.sent_s + seen.seconds(f"server_{stage}_us") for stage in stages]


def _server_figures(seen: Observations, executing: Executing) -> dict[str, Figure]:
    """Queue shares over sums, so that long requests weigh what they weigh; null without stages."""
    known, untold = seen.has_stages, seen.why_no_stages

    def total(until: str, since: str | None = None) -> float:
        spans: Floats = seen.seconds(f"server_{until}_us")[known]
        return float((spans - seen.seconds(f"server_{since}_us")[known]).sum() if since else spans.sum())

    whole = total("finished")
    behind = executing.seconds_within(*(m[known] for m in _moments(seen, "enqueued", "exec_start")))
    preprocess, inference = total("pre_start", "parsed"), total("exec_start", "enqueued")
    service = np.where(known, seen.per_request["service_latency"], np.nan)
    outside = service - seen.seconds("server_finished_us")
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
        "queue_share": share(preprocess + inference, whole, untold),
        "preprocess_queue_share": share(preprocess, whole, untold),
        "inference_queue_share": share(inference, whole, untold),
        "queued_behind_share": share(
            float(behind.sum()), inference, "no request waited" if whole else untold
        ),
        "release_share": share(total("finished", "last_token"), whole, untold),
        "outside_share": share(float(np.nansum(outside)), float(np.nansum(service)), untold),
        "mean_batch": float(batches.mean()) if batches.size else Missing(untold),
        "queued_mean_batch": share(float((batches * waits).sum()), float(waits.sum()), "no request waited"),
    }


def _delivery_figures(seen: Observations) -> dict[str, Figure]:
    """How the tokens of the streams that succeeded came, and what the slowest answers are made of."""
    ok = seen.is_ok
    chunks, coalesced = seen.numbers("num_chunks")[ok], seen.numbers("num_coalesced")[ok]
    later = float(np.nansum(np.maximum(chunks - 1, 0)))
    ours = seen.seconds("last_token_ns") - seen.seconds("first_token_ns")
    theirs = seen.seconds("server_last_token_us") - seen.seconds("server_first_token_us")
    told = ok & seen.has_stages & ~np.isnan(ours) & (theirs > 0)
    return {
        "coalesced_share": share(float(np.nansum(coalesced)), later, _NO_STREAM),
        "delivery_share": share(float(ours[told].sum()), float(theirs[told].sum()), seen.why_no_stages),
        "tail_own_share": _tail_own_share(seen),
    }


def _tail_own_share(seen: Observations) -> Figure:
    latency, tokens = seen.per_request["service_latency"], seen.numbers("output_tokens")
    ttft, tpot = seen.per_request["service_ttft"], seen.per_request["tpot"]
    known = np.flatnonzero(~np.isnan(latency) & ~np.isnan(tokens))
    if not known.size or np.isnan(ttft).all() or np.isnan(tpot).all():
        return Missing(_NO_STREAM)
    slowest = known[np.argsort(latency[known], kind="stable")[-max(1, round(known.size * _SLOWEST)) :]]
    own = np.nanmedian(ttft) + np.maximum(tokens[slowest] - 1, 0) * np.nanmedian(tpot)
    return share(
        float(np.minimum(own, latency[slowest]).sum()),
        float(latency[slowest].sum()),
        "the answers took no time",
    )
