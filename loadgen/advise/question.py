"""Question: what advice is asked about: requests that come, and the setting that serves them now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from loadgen.advise.setting import Setting
from loadgen.plan.planner import plan
from loadgen.plan.schedule import Schedule
from loadgen.plan.shape import Shape
from loadgen.replay.run_folder import RunFolder
from loadgen.trace.schema import SCHEMA
from loadgen.trace.synthetic import draw_like
from loadgen.trace.trace import Trace, TraceMetadata


@dataclass(frozen=True, slots=True)
class Question:
    """A trace and how it is sent. options: the shape again, by the names of plan's options, as an experiment's file
    has them. present: flags of the bundled server in use, where they are known."""

    trace: Trace
    shape: Shape
    options: Mapping[str, Any]
    present: str | None

    @property
    def schedule(self) -> Schedule:
        return plan(self.trace, self.shape)

    def drawn(self, number: int) -> Schedule:
        """What would be sent of a trace like this one, each number's its own."""
        return plan(draw_like(self.trace, seed=number + 1), self.shape)


def question_of_run(folder: RunFolder, shape: Shape) -> Question:
    """Of what a run sent, as it was sent, at the setting that served it. shape: one that changes nothing."""
    facts = folder.read_facts()
    present = _flags_of((facts.get("target") or {}).get("facts"))
    return Question(_trace_of(folder.read_schedule()), shape, {}, present)


def _trace_of(schedule: Schedule) -> Trace:
    """What a run sent, as a trace: to draw others like it."""
    table = schedule.table
    columns = {
        **{name: table.column(name) for name in table.column_names},
        "arrival_ns": table.column("planned_ns"),
    }
    arrays = [
        columns[field.name].cast(field.type)
        if field.name in columns
        else pa.nulls(table.num_rows, field.type)
        for field in SCHEMA
    ]
    metadata = TraceMetadata(origin_unix_ns=None, stamp_marks="arrival", arrival_from="the schedule of a run")
    return Trace(pa.Table.from_arrays(arrays, schema=SCHEMA), metadata)


def _flags_of(facts: Mapping[str, Any] | None) -> str | None:
    """The flags that a bundled server's own account stands for; None for another server."""
    if not facts or facts.get("name") != "loadgen_target":
        return None
    flags = facts["flags"]
    setting = Setting(
        facts["policy"],
        flags["max_batch_size"],
        flags["max_wait_ms"] if facts["policy"] == "dynamic" else None,
        flags["window_ms"] if facts["policy"] == "fixed-window" else None,
        flags["max_inflight_batches"],
        flags["max_num_batched_tokens"] if facts["policy"] == "continuous" else None,
        flags["max_queue_size"],
    )
    timeout = "none" if flags["timeout_s"] is None else f"{flags['timeout_s'] * 1e3:g}ms"
    return f"{setting.flags} --static-release {flags['static_release']} --timeout {timeout}"
