"""RecordedRun: all that a run folder holds, read once; the report, its charts and its exports are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.errors import RunError
from loadgen.plan.schedule import Schedule
from loadgen.replay.run_folder import RunFolder, RunStatus, refuse_without
from loadgen.report.figures import Floats
from loadgen.report.observations import Observations
from loadgen.telemetry.samples import SCHEMA


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """facts: run.json, with the status as it turned out. telemetry: rows of its samples; None where none was kept.

    run_end_s: when the run ended on its clock; of a killed run, the last moment that was recorded.
    """

    path: Path
    facts: dict[str, Any]
    schedule: Schedule
    seen: Observations
    telemetry: pa.Table | None
    run_end_s: float

    @property
    def planned_s(self) -> Floats:
        """All planned moments; a killed run has fewer records."""
        return np.asarray(self.schedule.planned_ns / 1e9, dtype=np.float64)


def read_run(folder: RunFolder) -> RecordedRun:
    """Read a run folder. Raises RunError or ScheduleError where it cannot be read."""
    facts = folder.read_facts()
    if "status" not in facts:
        raise RunError(f"{folder.path / 'run.json'}: tells no status", hint="restore it, or repeat the run")
    if facts["status"] == RunStatus.RUNNING:
        # A run that is still sending looks the same from outside: what it has on disk is what is told.
        facts = {
            **facts,
            "status": RunStatus.INTERRUPTED.value,
            "exit_reason": "killed, or not finished yet",
        }
    schedule = folder.read_schedule()
    seen = Observations(folder.read_requests())
    # What decoding took, of a million requests as much again as they do.
    pa.default_memory_pool().release_unused()
    return RecordedRun(folder.path, facts, schedule, seen, _telemetry(folder), _run_end_s(facts, seen))


def _run_end_s(facts: dict[str, Any], seen: Observations) -> float:
    if facts.get("run_end_ns") is not None:
        return float(facts["run_end_ns"]) / 1e9
    ends = seen.seconds("end_ns")
    ends = ends[~np.isnan(ends)]
    return float(ends.max()) if ends.size else 0.0


def _telemetry(folder: RunFolder) -> pa.Table | None:
    if not folder.telemetry_path.is_file():
        return None
    try:
        table = pq.read_table(folder.telemetry_path)
        refuse_without(table, SCHEMA, folder.telemetry_path)
        return table.select(SCHEMA.names).cast(SCHEMA)
    except (OSError, ValueError, pa.ArrowException) as exc:
        raise RunError(f"{folder.telemetry_path}: cannot be read ({exc})".splitlines()[0]) from exc
