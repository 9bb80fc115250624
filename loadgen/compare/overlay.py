"""Overlay: what the requests of both sides look like, one over the other. It shows; it judges nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.compare.compared_run import ComparedRun
from loadgen.compare.comparison import Comparison
from loadgen.compare.laws import Floats
from loadgen.compare.run_rows import RunRows, read_rows
from loadgen.report.chart import Shade
from loadgen.report.curves import Ecdf, ecdf
from loadgen.report.recovery import is_injection
from loadgen.report.timeline import Series, bin_length_s, binned_percentile


@dataclass(frozen=True, slots=True)
class Side:
    """One side, all its runs together. runs: how many. planned: requests that its runs planned.

    latency, ttft: its own successes; None without any. latency_p50 ...: one value a bin by planned moment, in s;
    failed: requests planned in the bin that failed, a run's mean.
    """

    runs: int
    planned: int
    latency: Ecdf | None
    ttft: Ecdf | None
    latency_p50: Series
    latency_p99: Series
    ttft_p50: Series
    failed: Series


@dataclass(frozen=True, slots=True)
class Overlay:
    """bin_s: of all series. shaded: injected windows of the schedule."""

    bin_s: float
    base: Side
    candidate: Side
    shaded: tuple[Shade, ...]


def overlay(comparison: Comparison) -> Overlay:
    """Read both sides' requests again. Raises RunError where a run cannot be read."""
    windows = comparison.base[0].folder.read_schedule().windows
    end_s = max(windows[-1].end_ns / 1e9, 1e-3)
    bin_s = bin_length_s(end_s)
    count = max(int(np.ceil(end_s / bin_s)), 1)
    return Overlay(
        bin_s,
        _side(comparison.base, bin_s, count),
        _side(comparison.candidate, bin_s, count),
        tuple(
            Shade(window.label, window.start_ns / 1e9, window.end_ns / 1e9)
            for window in windows
            if is_injection(window.label)
        ),
    )


def _side(runs: Sequence[ComparedRun], bin_s: float, count: int) -> Side:
    every = [read_rows(run.folder) for run in runs]
    planned_s = np.concatenate([rows.planned_s for rows in every])
    places = np.clip((planned_s / bin_s).astype(np.int64), 0, count - 1)
    latency_s, ttft_s = _of(every, "latency"), _of(every, "ttft")
    has_failed = np.concatenate([rows.is_decided & ~rows.is_ok for rows in every])
    failed = np.bincount(places[has_failed], minlength=count) / len(runs)
    return Side(
        runs=len(runs),
        planned=int(planned_s.size),
        latency=_curve("latency", latency_s),
        ttft=_curve("ttft", ttft_s),
        latency_p50=binned_percentile(places, latency_s, 50, count),
        latency_p99=binned_percentile(places, latency_s, 99, count),
        ttft_p50=binned_percentile(places, ttft_s, 50, count),
        failed=[float(value) for value in failed],
    )


def _of(every: Sequence[RunRows], metric: str) -> Floats:
    return np.concatenate([rows.metric(metric) for rows in every])


def _curve(metric: str, values: Floats) -> Ecdf | None:
    known = values[~np.isnan(values)]
    return ecdf(metric, known) if known.size else None
