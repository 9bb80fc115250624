"""ScheduleSummary: what a schedule holds, in figures, before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from loadgen.plan.schedule import Schedule
from loadgen.plan.windows import places_in
from loadgen.trace.statistics import SECOND_NS, peak_within

# A rate over less than this says nothing: one request at a schedule's last nanosecond is no 1e9/s.
_SHORTEST_RATE_S = 1e-3


@dataclass(frozen=True, slots=True)
class WindowSummary:
    """All stretches of one label together, `start_s` of the first.

    rate_per_s: requests over the seconds of the stretches, None where these are under 1 ms.
    """

    label: str
    start_s: float
    duration_s: float
    requests: int
    injected: int
    rate_per_s: float | None


@dataclass(frozen=True, slots=True)
class ScheduleSummary:
    """Counts, seconds and rates of a schedule. Sums of a length that no row knows are None.

    rate_per_s: requests over the length, None where that is under 1 ms. peak_1s_fixed: most requests in one
    second counted from the start; peak_1s_sliding: in any second; peak_10s_sliding: in any ten, None where the
    schedule is shorter. Each sum counts the rows that know that length.
    """

    requests: int
    injected: int
    duration_s: float
    rate_per_s: float | None
    peak_1s_fixed: int
    peak_1s_sliding: int
    peak_10s_sliding: int | None
    input_tokens: int | None
    input_chars: int | None
    input_bytes: int | None
    output_tokens: int | None
    output_chars: int | None
    output_bytes: int | None
    windows: tuple[WindowSummary, ...]
    schedule_hash: str


@dataclass(frozen=True, slots=True)
class RateBins:
    """A schedule's requests over time, in bins of equal length.

    counts: requests in each. highest_1s: most of them in a second that begins in it. labels: its window's, of an
    injection where one touches it.
    """

    bin_s: float
    counts: list[int]
    highest_1s: list[int]
    labels: list[str]


def summarise(schedule: Schedule) -> ScheduleSummary:
    """The figures of `schedule`; windows in order of their first appearance."""
    planned_ns = schedule.planned_ns
    is_extra = schedule.is_injected
    places = places_in(schedule.windows, planned_ns)
    requests = np.bincount(places, minlength=len(schedule.windows)).tolist()
    injected = np.bincount(places[is_extra], minlength=len(schedule.windows)).tolist()
    stretches = [
        _window_summary(window.label, window.start_ns / 1e9, (window.end_ns - window.start_ns) / 1e9, *counts)
        for window, *counts in zip(schedule.windows, requests, injected, strict=True)
    ]
    sums = {
        name: pc.sum(schedule.table.column(name)).as_py()
        for name in schedule.table.schema.names
        if name.startswith(("input_", "output_"))
    }
    return ScheduleSummary(
        requests=schedule.num_requests,
        injected=int(is_extra.sum()),
        duration_s=schedule.end_ns / 1e9,
        rate_per_s=_rate_per_s(schedule.num_requests, schedule.end_ns / 1e9),
        peak_1s_fixed=int(np.unique(planned_ns // SECOND_NS, return_counts=True)[1].max()),
        peak_1s_sliding=peak_within(planned_ns, SECOND_NS),
        peak_10s_sliding=(
            peak_within(planned_ns, 10 * SECOND_NS) if schedule.end_ns >= 10 * SECOND_NS else None
        ),
        windows=_joined(stretches, [stretch.label for stretch in stretches]),
        schedule_hash=schedule.schedule_hash,
        **sums,
    )


def by_kind(windows: Sequence[WindowSummary]) -> tuple[WindowSummary, ...]:
    """`peak-1`, `peak-2` and so on joined as `peak (2)`: few lines where injections are many."""
    kinds = [window.label.split("-")[0] for window in windows]
    counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    return _joined(windows, [f"{kind} ({counts[kind]})" if counts[kind] > 1 else kind for kind in kinds])


def rate_bins(schedule: Schedule, num_bins: int) -> RateBins:
    """The schedule in `num_bins` equal parts."""
    width_ns = schedule.end_ns / num_bins
    starts_ns = np.array([window.start_ns for window in schedule.windows])
    edges_ns = np.arange(num_bins + 1) * width_ns
    firsts = np.searchsorted(starts_ns, edges_ns[:-1], side="right") - 1
    lasts = np.searchsorted(starts_ns, edges_ns[1:], side="left")
    labels: list[str] = []
    for first, last in zip(firsts, lasts, strict=True):
        inside = [window.label for window in schedule.windows[first : max(last, first + 1)]]
        injected = [label for label in inside if label.startswith(("peak", "burst"))]
        labels.append((injected or inside)[0])
    return bin_moments(schedule.planned_ns, schedule.end_ns, labels)


def bin_moments(moments_ns: npt.NDArray[np.int64], end_ns: int, labels: list[str]) -> RateBins:
    """`moments_ns`, ascending within 0 to `end_ns`, in as many equal parts as there are labels."""
    num_bins = len(labels)
    width_ns = end_ns / num_bins
    places = np.minimum((moments_ns / width_ns).astype(np.int64), num_bins - 1)
    ends = np.searchsorted(moments_ns, moments_ns + SECOND_NS, side="left")
    highest_1s = np.zeros(num_bins, dtype=np.int64)
    np.maximum.at(highest_1s, places, ends - np.arange(moments_ns.size))
    return RateBins(
        bin_s=width_ns / 1e9,
        counts=np.bincount(places, minlength=num_bins).tolist(),
        highest_1s=highest_1s.tolist(),
        labels=labels,
    )


def _joined(windows: Sequence[WindowSummary], labels: Sequence[str]) -> tuple[WindowSummary, ...]:
    """Windows of equal label as one, in order of first appearance."""
    groups: dict[str, list[WindowSummary]] = {label: [] for label in labels}
    for window, label in zip(windows, labels, strict=True):
        groups[label].append(window)
    return tuple(
        _window_summary(
            label,
            group[0].start_s,
            sum(window.duration_s for window in group),
            sum(window.requests for window in group),
            sum(window.injected for window in group),
        )
        for label, group in groups.items()
    )


def _window_summary(
    label: str, start_s: float, duration_s: float, requests: int, injected: int
) -> WindowSummary:
    return WindowSummary(label, start_s, duration_s, requests, injected, _rate_per_s(requests, duration_s))


def _rate_per_s(requests: int, duration_s: float) -> float | None:
    return requests / duration_s if duration_s >= _SHORTEST_RATE_S else None
