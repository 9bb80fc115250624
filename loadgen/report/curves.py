"""Curves: what the charts show beyond the report's figures: distributions, a heat map, lengths, failures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadgen.replay.request_record import Outcome
from loadgen.report.figures import Floats
from loadgen.report.measures import OVERALL
from loadgen.report.observations import Observations
from loadgen.report.outcomes import against
from loadgen.report.timeline import binned_percentile

# Points of a curve; the far tail has more of them than its share.
_RANKS = 160
_TAIL_RANKS = 60
_HEAT_ROWS, _HEAT_COLUMNS = 36, 120
_LENGTH_GROUPS = 16
_MIN_GROUP = 5
_MAX_DOTS = 1200


@dataclass(frozen=True, slots=True)
class Ecdf:
    """Observed values in s, ascending, and the share of all `count` values that do not exceed each."""

    label: str
    count: int
    values_s: tuple[float, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Heat:
    """counts[row][column]: answers whose latency lay within a row's edges, planned within a column's.

    latency_edges_s: in equal ratios. Successes only.
    """

    time_edges_s: tuple[float, ...]
    latency_edges_s: tuple[float, ...]
    counts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class LengthGroup:
    """Answers of like length: lengths from least to most, their number, and percentiles of their time in s."""

    least: float
    most: float
    count: int
    p50_s: float
    p99_s: float


@dataclass(frozen=True, slots=True)
class ByLength:
    """metric: latency or service_ttft. tokens: input or output. dots: (tokens, s) of some answers, evenly drawn."""

    tokens: str
    metric: str
    groups: tuple[LengthGroup, ...]
    dots: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Curves:
    """latency: overall first, then each window with a success. failures: by outcome, one count a bin of bin_s.

    lateness_p50, lateness_p99: one value a bin, in s.
    """

    latency: tuple[Ecdf, ...]
    heat: Heat | None
    by_length: tuple[ByLength, ...]
    bin_s: float
    failures: dict[str, tuple[int, ...]]
    lateness_p50: tuple[float | None, ...]
    lateness_p99: tuple[float | None, ...]


def curves(seen: Observations, bin_s: float, num_bins: int) -> Curves:
    """bin_s, num_bins: of the report's time line, so that all charts share its bins."""
    latency_s = seen.per_request["latency"]
    windows = [
        ecdf(label, values)
        for label, mask in seen.window_masks()
        if (values := latency_s[mask & ~np.isnan(latency_s)]).size
    ]
    known = latency_s[~np.isnan(latency_s)]
    whole = [ecdf(OVERALL, known)] if known.size else []
    places = np.clip((seen.planned_s / bin_s).astype(np.int64), 0, max(num_bins - 1, 0))
    lateness_s = seen.per_request["lateness"]
    return Curves(
        latency=(*whole, *(windows if len(windows) > 1 else ())),
        heat=_heat(seen.planned_s, latency_s, bin_s * num_bins),
        by_length=tuple(_by_length(seen)),
        bin_s=bin_s,
        failures=_failures(seen, bin_s, num_bins),
        lateness_p50=tuple(binned_percentile(places, lateness_s, 50, num_bins)),
        lateness_p99=tuple(binned_percentile(places, lateness_s, 99, num_bins)),
    )


def ecdf(label: str, values: Floats) -> Ecdf:
    """The curve of at least one value, in some 200 points at most, from the minimum to the maximum."""
    ordered = np.sort(values)
    count = ordered.size
    even = np.linspace(1, count, min(count, _RANKS))
    tail = count - np.geomspace(1, count, min(count, _TAIL_RANKS)) + 1
    ranks = np.unique(np.concatenate([even, tail]).round().astype(np.int64).clip(1, count))
    return Ecdf(
        label,
        int(count),
        tuple(float(value) for value in ordered[ranks - 1]),
        tuple(float(rank) for rank in ranks / count),
    )


def _heat(planned_s: Floats, latency_s: Floats, end_s: float) -> Heat | None:
    known = ~np.isnan(latency_s) & (latency_s > 0)
    if not known.any() or not end_s > 0:
        return None
    low, high = float(latency_s[known].min()), float(latency_s[known].max())
    # One value has no width of its own.
    low, high = low / 1.02, high * 1.02
    times = np.linspace(0.0, end_s, _HEAT_COLUMNS + 1)
    edges = np.geomspace(low, high, _HEAT_ROWS + 1)
    counts, _, _ = np.histogram2d(latency_s[known], np.clip(planned_s[known], 0.0, end_s), [edges, times])
    return Heat(
        tuple(float(edge) for edge in times),
        tuple(float(edge) for edge in edges),
        tuple(tuple(int(count) for count in row) for row in counts),
    )


def _by_length(seen: Observations) -> list[ByLength]:
    prompt = seen.numbers("prompt_tokens")
    asked = np.where(np.isnan(prompt), seen.numbers("input_tokens_planned"), prompt)
    found = []
    for tokens, lengths, metric in (
        ("input", asked, "service_ttft"),
        ("output", seen.numbers("output_tokens"), "service_latency"),
    ):
        values = seen.per_request[metric]
        known = ~np.isnan(lengths) & ~np.isnan(values)
        if known.any():
            found.append(_grouped(tokens, metric, lengths[known], values[known]))
    return found


def _grouped(tokens: str, metric: str, lengths: Floats, values: Floats) -> ByLength:
    order = np.argsort(lengths, kind="stable")
    lengths, values = lengths[order], values[order]
    bounds = np.linspace(0, lengths.size, min(_LENGTH_GROUPS, max(1, lengths.size // _MIN_GROUP)) + 1)
    # Answers of one length stay together: a group begins where a length first appears.
    starts = np.unique(np.searchsorted(lengths, lengths[bounds[:-1].astype(np.int64)]))
    groups = []
    for start, end in zip(starts, [*starts[1:], lengths.size], strict=True):
        part = np.sort(values[start:end])
        groups.append(
            LengthGroup(
                float(lengths[start]),
                float(lengths[end - 1]),
                int(part.size),
                float(part[-(-part.size // 2) - 1]),
                float(part[-(-99 * part.size // 100) - 1]),
            )
        )
    picked = np.unique(np.linspace(0, lengths.size - 1, min(_MAX_DOTS, lengths.size)).astype(np.int64))
    dots = tuple((float(lengths[one]), float(values[one])) for one in picked)
    return ByLength(tokens, metric, tuple(groups), dots)


def _failures(seen: Observations, bin_s: float, num_bins: int) -> dict[str, tuple[int, ...]]:
    """By the moment each ended, or was due where it never ended; successes and the undecided are none."""
    end_s = seen.seconds("end_ns")
    moments: npt.NDArray[np.float64] = np.where(np.isnan(end_s), seen.planned_s, end_s)
    places = np.clip((moments / bin_s).astype(np.int64), 0, max(num_bins - 1, 0))
    found: dict[str, tuple[int, ...]] = {}
    for outcome in Outcome:
        mask = seen.ended_as(outcome)
        if against(outcome) != "nobody" and mask.any():
            counts = np.bincount(places[mask], minlength=num_bins)
            found[outcome.value] = tuple(int(count) for count in counts)
    return found
