"""Result: the figures of an experiment's run, and those of a cell over its repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.compare.compared_run import load_run
from loadgen.experiment.matrix import Cell
from loadgen.report.figures import Distribution
from loadgen.report.measures import OVERALL
from loadgen.report.recorded_run import read_run
from loadgen.report.sampled import Sampled
from loadgen.report.stored import StoredReport

_BUSY = "loadgen_target:step_busy_seconds_total"


@dataclass(frozen=True, slots=True)
class Column:
    """A figure of the table. kind: rate, time, share, count or number; of a time the unit is s."""

    key: str
    head: str
    kind: str
    about: str


COLUMNS = (
    Column("offered_rate", "offered /s", "rate", "planned requests a second"),
    Column(
        "throughput",
        "served /s",
        "rate",
        "answers that succeeded, over the time from the first planned send to the last of them, or to the last "
        "planned send if that is later",
    ),
    Column("rejected", "refused", "count", "answers 429 or 503"),
    Column("failed", "failed", "count", "other failures, timeouts among them"),
    Column("latency_mean", "mean", "time", "latency from the planned send"),
    Column("latency_p99", "p99", "time", "of the same"),
    Column("ttft_p99", "TTFT p99", "time", "first token from the planned send"),
    Column("queue_share", "queue", "share", "server time in queues over all of it"),
    Column(
        "engine_active_share",
        "engine",
        "share",
        "time within steps over that between readings, to the last answer",
    ),
    Column("gpu_active_share", "GPU", "share", "time with any kernel on the device"),
    Column("gpu_memory_share", "GPU mem", "share", "used memory of the device"),
    Column("mean_batch", "batch", "number", "mean rows over the answers"),
    Column("useful_row_share", "useful", "share", "rows whose token somebody waited for, over all computed"),
)


@dataclass(frozen=True, slots=True)
class Result:
    """values: by Column.key, None where unknown. windows: label -> (p50, p99) latency in s, injected or not.

    kept: whether the run's limits held, None without any; one without a value to judge is broken, and the first of
    these is `unjudged` where anything succeeded at all. valid: the generator was not the limit.
    """

    cell: Cell
    run: str
    valid: bool
    kept: bool | None
    values: dict[str, float | None]
    windows: dict[str, tuple[float, float]]
    unjudged: str | None = None


def result_of(folder: Path, cell: Cell) -> Result:
    """Read a run that was reported. Raises RunError where it cannot be read."""
    run = load_run(folder)
    read = read_run(run.folder)
    report, seen = run.report, read.seen
    ok = seen.is_ok
    outcomes = report.outcomes
    ends = seen.seconds("end_ns")[ok]
    # Where the last of them fail, their time counts, too: a target that died would look fast.
    span_s = float(max(ends.max(), read.planned_s.max()) - read.planned_s.min()) if ends.size else 0.0
    rejected = outcomes.get("rejected", 0)
    values: dict[str, float | None] = {
        "offered_rate": _value(report, "offered_rate"),
        "throughput": ends.size / span_s if span_s > 0 else None,
        "rejected": float(rejected),
        "failed": float(report.planned - outcomes.get("ok", 0) - rejected),
        "latency_mean": _value(report, "latency", "mean"),
        "latency_p99": _value(report, "latency", "p99"),
        "ttft_p99": _value(report, "ttft", "p99"),
    }
    sampled = Sampled(read.telemetry)
    useful = sampled.useful_row_share(_whole(read.run_end_s))
    values["useful_row_share"] = useful if isinstance(useful, float) else None
    values["engine_active_share"] = _busy(sampled, read.run_end_s)
    for name in ("queue_share", "gpu_active_share", "gpu_memory_share", "mean_batch"):
        values[name] = _value(report, name)
    windows = {
        label: (latency.p50, latency.p99)
        for label in report.figures
        if isinstance(latency := report.figure(label, "latency"), Distribution)
    }
    unjudged = next((one["limit"] for one in _overall(report) if one["kept"] is None), None)
    return Result(
        cell, run.name, report.is_valid, _kept(report), values, windows, unjudged if ends.size else None
    )


@dataclass(frozen=True, slots=True)
class Row:
    """A target at a load: medians over the repeats that have the figure, and the lowest and highest of them."""

    load: str
    target: str
    runs: int
    invalid: int
    kept: int | None
    values: dict[str, float | None]
    spread: dict[str, tuple[float, float]]
    windows: dict[str, tuple[float, float]]

    def as_json(self) -> dict[str, Any]:
        return {
            "load": self.load,
            "target": self.target,
            "runs": self.runs,
            "invalid": self.invalid,
            "limits_held": self.kept,
            "figures": self.values,
            "spread": {name: list(pair) for name, pair in self.spread.items()},
            "windows": {name: {"p50": p50, "p99": p99} for name, (p50, p99) in self.windows.items()},
        }


def rows_of(results: Sequence[Result], loads: Sequence[str], targets: Sequence[str]) -> list[Row]:
    """One row for each load and target that was run, in the given order."""
    rows = []
    for load in loads:
        for target in targets:
            mine = [one for one in results if (one.cell.load, one.cell.target) == (load, target)]
            if mine:
                rows.append(_row(load, target, mine))
    return rows


def _row(load: str, target: str, results: Sequence[Result]) -> Row:
    values: dict[str, float | None] = {}
    spread: dict[str, tuple[float, float]] = {}
    for column in COLUMNS:
        known = [value for one in results if (value := one.values[column.key]) is not None]
        values[column.key] = float(np.median(known)) if known else None
        if known:
            spread[column.key] = (min(known), max(known))
    labels = dict.fromkeys(label for one in results for label in one.windows)
    windows = {
        label: (
            float(np.median([one.windows[label][0] for one in results if label in one.windows])),
            float(np.median([one.windows[label][1] for one in results if label in one.windows])),
        )
        for label in labels
    }
    judged = [one.kept for one in results if one.kept is not None]
    return Row(
        load,
        target,
        len(results),
        sum(not one.valid for one in results),
        sum(judged) if judged else None,
        values,
        spread,
        windows,
    )


def _value(report: StoredReport, metric: str, statistic: str | None = None) -> float | None:
    figure = report.figure(OVERALL, metric)
    if statistic is not None:
        return float(getattr(figure, statistic)) if isinstance(figure, Distribution) else None
    return figure if isinstance(figure, float) else None


def _overall(report: StoredReport) -> list[dict[str, Any]]:
    """The verdicts on the limits over the whole run."""
    return [one for one in report.document.get("limits") or () if one["window"] == OVERALL]


def _kept(report: StoredReport) -> bool | None:
    overall = _overall(report)
    return all(one["kept"] for one in overall) if overall else None


def _whole(end_s: float) -> tuple[tuple[float, float]]:
    """The whole of the readings: a load that comes all at once is served long after its planned time."""
    return ((0.0, end_s + 60.0),)


def _busy(sampled: Sampled, end_s: float) -> float | None:
    for series in sampled.named(_BUSY).values():
        grown = series.increase(_whole(end_s))
        length_s = float(series.moments_s[-1] - series.moments_s[0])
        if grown is not None and length_s > 0:
            return min(1.0, grown / length_s)
    return None
