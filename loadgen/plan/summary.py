"""ScheduleSummary: what a schedule holds, in figures, before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from loadgen.plan.schedule import Schedule
from loadgen.trace.statistics import SECOND_NS, peak_within


@dataclass(frozen=True, slots=True)
class WindowSummary:
    """All stretches of one label together. rate_per_s: requests over their seconds."""

    label: str
    start_s: float
    duration_s: float
    requests: int
    injected: int
    rate_per_s: float


@dataclass(frozen=True, slots=True)
class ScheduleSummary:
    """Counts, seconds and rates of a schedule. Token sums are None where no row knows its tokens.

    peak_1s_fixed: most requests in one second counted from the start; peak_1s_sliding: in any second.
    """

    requests: int
    injected: int
    duration_s: float
    rate_per_s: float
    peak_1s_fixed: int
    peak_1s_sliding: int
    input_tokens: int | None
    output_tokens: int | None
    windows: tuple[WindowSummary, ...]
    schedule_hash: str


def summarise(schedule: Schedule) -> ScheduleSummary:
    """The figures of `schedule`; windows in order of their first appearance."""
    planned_ns = schedule.planned_ns
    is_extra = np.asarray(schedule.table.column("copy").to_numpy()) > 0
    labels = np.asarray(schedule.table.column("window").cast("string").to_pylist(), dtype=object)
    windows: list[WindowSummary] = []
    for label in dict.fromkeys(window.label for window in schedule.windows):
        spans = [window for window in schedule.windows if window.label == label]
        duration_s = sum(window.end_ns - window.start_ns for window in spans) / 1e9
        inside = labels == label
        windows.append(
            WindowSummary(
                label=label,
                start_s=spans[0].start_ns / 1e9,
                duration_s=duration_s,
                requests=int(inside.sum()),
                injected=int((inside & is_extra).sum()),
                rate_per_s=float(inside.sum() / duration_s),
            )
        )
    duration_s = schedule.end_ns / 1e9
    return ScheduleSummary(
        requests=schedule.num_requests,
        injected=int(is_extra.sum()),
        duration_s=duration_s,
        rate_per_s=schedule.num_requests / duration_s,
        peak_1s_fixed=int(np.bincount(planned_ns // SECOND_NS).max()),
        peak_1s_sliding=peak_within(planned_ns, SECOND_NS),
        input_tokens=pc.sum(schedule.table.column("input_tokens")).as_py(),
        output_tokens=pc.sum(schedule.table.column("output_tokens")).as_py(),
        windows=tuple(windows),
        schedule_hash=schedule.schedule_hash,
    )


def rate_curve(schedule: Schedule, num_bins: int) -> tuple[list[int], list[str], float]:
    """Requests in each of `num_bins` equal bins, the label at each bin's middle (an injection within wins),
    and the bin's seconds."""
    width_ns = schedule.end_ns / num_bins
    places = np.minimum((schedule.planned_ns / width_ns).astype(np.int64), num_bins - 1)
    counts = np.bincount(places, minlength=num_bins).tolist()
    labels: list[str] = []
    for number in range(num_bins):
        start_ns, end_ns = number * width_ns, (number + 1) * width_ns
        inside = [w.label for w in schedule.windows if w.start_ns < end_ns and w.end_ns > start_ns]
        injected = [label for label in inside if label.startswith(("peak", "burst"))]
        labels.append((injected or inside)[0])
    return counts, labels, width_ns / 1e9
