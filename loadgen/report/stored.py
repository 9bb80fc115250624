"""StoredReport: a report.json that was read back, for what compares runs or judges them later."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.errors import RunError
from loadgen.report.figures import Figure, Missing, from_json
from loadgen.report.report import FORMAT_VERSION


@dataclass(frozen=True, slots=True)
class StoredReport:
    """The figures of a run as they were reported. Values are in the units that the report names.

    definition_ids: by metric; figures of two reports are comparable if these agree. figures: by window label
    ("overall" first), then by metric. outcomes: number of requests by outcome; their sum is planned.
    document: the whole of it, as plain values.
    """

    run_id: str
    status: str
    is_valid: bool
    planned: int
    percentile_method: str
    definition_ids: dict[str, str]
    units: dict[str, str]
    figures: dict[str, dict[str, Figure]]
    outcomes: dict[str, int]
    document: dict[str, Any]

    def figure(self, label: str, metric: str) -> Figure:
        """Missing, with the reason, also where the report has no such window or metric."""
        if label not in self.figures:
            return Missing(f"the run has no window {label}")
        return self.figures[label].get(metric, Missing(f"the report says nothing of {metric} in {label}"))


def read_report(path: Path) -> StoredReport:
    """Read a report.json. Raises RunError where it is missing, cut, no report, or newer than what is known here."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except (OSError, ValueError) as exc:
        raise RunError(
            f"{path}: cannot be read as a report ({exc})", hint="write it again with: loadgen report RUN"
        ) from exc
    version = document.get("format_version") if isinstance(document, dict) else None
    if not isinstance(version, int):
        raise RunError(
            f"{path}: is no report (no format_version in it)", hint="give the report.json of a run"
        )
    if version > FORMAT_VERSION:
        raise RunError(
            f"{path}: report format {version} is newer than {FORMAT_VERSION}, the last known here",
            hint="install a newer loadgen",
        )
    try:
        return _stored(document)
    except (KeyError, TypeError, AttributeError) as exc:
        raise RunError(
            f"{path}: breaks the report format ({type(exc).__name__}: {exc})",
            hint="write it again with: loadgen report RUN",
        ) from exc


def _stored(document: dict[str, Any]) -> StoredReport:
    return StoredReport(
        run_id=document["run"]["id"],
        status=document["run"]["status"],
        is_valid=document["valid"],
        planned=document["requests"]["planned"],
        percentile_method=document["percentile_method"],
        definition_ids={name: metric["id"] for name, metric in document["metrics"].items()},
        units={name: metric["unit"] for name, metric in document["metrics"].items()},
        figures={
            window["label"]: {name: from_json(figure) for name, figure in window["metrics"].items()}
            for window in document["windows"]
        },
        outcomes={name: outcome["count"] for name, outcome in document["outcomes"].items()},
        document=document,
    )


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
