"""Question: what advice is asked about: requests that come, and the setting that serves them now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from loadgen.advise.setting import Setting
from loadgen.plan.moments import busiest
from loadgen.plan.planner import plan
from loadgen.plan.schedule import Schedule
from loadgen.plan.shape import Shape
from loadgen.replay.run_folder import RunFolder
from loadgen.simulate.simulated_run import server_config
from loadgen.trace.schema import SCHEMA
from loadgen.trace.synthetic import draw_like
from loadgen.trace.trace import Trace, TraceMetadata


@dataclass(frozen=True, slots=True)
class Question:
    """A trace and how it is sent. options: the shape again, by the names of plan's options, as an experiment's file
    has them. present: flags of the bundled server in use, where they are known. shared: those of its model and
    limits, which other settings would have, too."""

    trace: Trace
    shape: Shape
    options: Mapping[str, Any]
    present: str | None
    shared: str = ""

    @property
    def schedule(self) -> Schedule:
        return plan(self.trace, self.shape)

    def drawn(self, number: int) -> Schedule:
        """What would be sent of a trace like this one, each number's its own."""
        return plan(draw_like(self.trace, seed=number + 1), self.shape)


def question_of_run(folder: RunFolder, shape: Shape) -> Question:
    """Of what a run sent, as it was sent, at the setting that served it. shape: one that changes nothing."""
    facts = folder.read_facts()
    told = (facts.get("target") or {}).get("facts") or {}
    is_bundled = told.get("name") == "loadgen_target"
    return Question(
        _trace_of(folder.read_schedule()),
        shape,
        {},
        _policy_flags(told["policy"], told["flags"]) if is_bundled else None,
        _shared_flags(told, told["flags"]) if is_bundled else "",
    )


def busiest_part(trace: Trace, num_requests: int) -> Trace:
    """The busiest stretch of a trace, as long as so many of its requests take in the mean; it begins at 0."""
    arrivals_ns = trace.arrival_ns
    span_ns = int(arrivals_ns[-1] - arrivals_ns[0])
    first, last = busiest(arrivals_ns, max(1, span_ns * num_requests // trace.num_rows))
    part = trace.table.slice(first, last - first)
    place = part.column_names.index("arrival_ns")
    moments = pa.array(arrivals_ns[first:last] - arrivals_ns[first])
    return Trace(part.set_column(place, part.schema.field(place), moments), trace.metadata)


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


def _policy_flags(policy: str, flags: Mapping[str, Any]) -> str:
    """The flags of batching that a bundled server's own account stands for."""
    setting = Setting(
        policy,
        flags["max_batch_size"],
        flags["max_wait_ms"] if policy == "dynamic" else None,
        flags["window_ms"] if policy == "fixed-window" else None,
        flags["max_inflight_batches"],
        flags["max_num_batched_tokens"] if policy == "continuous" else None,
        flags["max_queue_size"],
    )
    chunked = " --enable-chunked-prefill" if flags.get("chunked_prefill") else ""
    pipeline = f" --pipeline {flags['pipeline']}" if "pipeline" in flags else ""
    return f"{setting.flags} --static-release {flags['static_release']}{chunked}{pipeline}"


def _shared_flags(told: Mapping[str, Any], flags: Mapping[str, Any]) -> str:
    """The flags of the model and of limits, which are none of batching, where they are not the usual."""
    usual = server_config("")
    words = []
    if told.get("preset") not in (None, usual.engine.preset):
        words.append(f"--preset {told['preset']}")
    if flags["timeout_s"] != usual.timeout_s:
        words.append("--timeout none" if flags["timeout_s"] is None else f"--timeout {flags['timeout_s']:g}s")
    words += [
        f"--{name.replace('_', '-')} {flags[name]}"
        for name in ("timeout_scope", "max_model_len", "preprocess_workers", "preprocess_ms")
        if flags.get(name) not in (None, usual.told[name])
    ]
    return " ".join(words)
