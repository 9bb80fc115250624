"""History: figures of the runs in a folder over time, by version, with the points at which they changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loadgen.compare.cell import DECIDING, Cell
from loadgen.compare.change_points import ChangePoint, change_points
from loadgen.compare.comparability import printable
from loadgen.compare.compared_run import ComparedRun, in_time, load_run
from loadgen.errors import RunError
from loadgen.report.figures import Distribution
from loadgen.report.measures import OVERALL

FORMAT_VERSION = 1

_CELLS = (*(Cell(metric, statistic) for metric, statistic in DECIDING), Cell("output_token_rate", None))


@dataclass(frozen=True, slots=True)
class Series:
    """One figure over the runs of a group: values in the metric's unit, None where a run has none.

    points: indices count the runs of the group.
    """

    cell: Cell
    values: tuple[float | None, ...]
    points: tuple[ChangePoint, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Runs of one schedule, in order of time. versions: of the target, by run, as it says."""

    trace: str
    schedule_hash: str
    runs: tuple[str, ...]
    started_utc: tuple[str, ...]
    versions: tuple[str, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class History:
    """groups: the one with most runs first. left_out: runs that say nothing, with the reason."""

    groups: tuple[Group, ...]
    left_out: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "format_version": FORMAT_VERSION,
            "groups": [
                {
                    "trace": group.trace,
                    "schedule_hash": group.schedule_hash,
                    "runs": [
                        {"run": run, "started_utc": started, "version": version}
                        for run, started, version in zip(
                            group.runs, group.started_utc, group.versions, strict=True
                        )
                    ],
                    "series": [
                        {
                            "metric": one.cell.metric,
                            "statistic": one.cell.statistic,
                            "unit": one.cell.of.unit,
                            "better": one.cell.of.better,
                            "values": list(one.values),
                            "change_points": [
                                {**asdict(point), "run": group.runs[point.index]} for point in one.points
                            ],
                        }
                        for one in group.series
                    ],
                }
                for group in self.groups
            ],
            "left_out": list(self.left_out),
        }


def read_history(folder: Path) -> tuple[list[ComparedRun], list[str]]:
    """(usable runs in `folder` and in the experiments within it, why others are left out).

    Raises RunError where there is none.
    """
    runs, left_out = [], []
    for path in sorted({*folder.glob("*/run.json"), *folder.glob("*/*/run.json")}):
        try:
            run = load_run(path.parent)
        except RunError as error:
            left_out.append(error.message)
            continue
        if (reason := run.why_unusable) is not None:
            left_out.append(f"{run.name}: {reason}")
        else:
            runs.append(run)
    if not runs:
        raise RunError(
            f"{folder}: holds no run that can be used", hint="give a folder of run folders: reports/"
        )
    return in_time(runs), left_out


def history(found: tuple[Sequence[ComparedRun], Sequence[str]], seed: int = 0) -> History:
    """Series of each group of runs that were sent the same schedule."""
    runs, left_out = found
    groups: dict[str, list[ComparedRun]] = {}
    for run in runs:
        groups.setdefault(str(run.facts.get("schedule_hash")), []).append(run)
    ranked = sorted(groups.values(), key=len, reverse=True)
    return History(tuple(_group(group, seed) for group in ranked), tuple(left_out))


def version_of(facts: dict[str, Any]) -> str:
    """What the target calls itself: its version, else its model."""
    target = facts.get("target") or {}
    told = target.get("facts") or {}
    return printable(str(told.get("version") or target.get("model") or "unknown"))


def _group(runs: Sequence[ComparedRun], seed: int) -> Group:
    first = runs[0].facts
    series = [_series(cell, runs, np.random.default_rng(seed)) for cell in _CELLS]
    return Group(
        trace=str((first.get("trace") or {}).get("name")),
        schedule_hash=str(first.get("schedule_hash")),
        runs=tuple(run.name for run in runs),
        started_utc=tuple(str(run.facts.get("started_utc")) for run in runs),
        versions=tuple(version_of(run.facts) for run in runs),
        series=tuple(one for one in series if any(value is not None for value in one.values)),
    )


def _series(cell: Cell, runs: Sequence[ComparedRun], rng: np.random.Generator) -> Series:
    values: list[float | None] = []
    for run in runs:
        figure = run.report.figure(OVERALL, cell.metric)
        if isinstance(figure, Distribution) and cell.statistic is not None:
            values.append(float(getattr(figure, cell.statistic)))
        else:
            values.append(figure if isinstance(figure, float) else None)
    places = [place for place, value in enumerate(values) if value is not None]
    known = np.array([values[place] for place in places], dtype=np.float64)
    use_logs = cell.is_ratio and bool((known > 0).all())
    found = change_points(np.log(known) if use_logs else known, rng)
    points = [
        ChangePoint(
            places[point.index],
            float(np.exp(point.before)) if use_logs else point.before,
            float(np.exp(point.after)) if use_logs else point.after,
            point.p,
        )
        for point in found
    ]
    return Series(cell, tuple(values), tuple(points))
