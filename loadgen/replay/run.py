"""A run: a schedule sent at a target, kept in a folder of its own."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import loadgen
from loadgen.errors import UsageError
from loadgen.percentiles import nearest_rank
from loadgen.plan.prompts import Prompts
from loadgen.plan.schedule import Schedule
from loadgen.replay.completion import complete_records, fates_of
from loadgen.replay.coordinator import Ending, Probe, run_workers
from loadgen.replay.payloads import Asking
from loadgen.replay.record_parts import made_folder
from loadgen.replay.run_folder import RunFolder, RunStatus
from loadgen.replay.secrets import shown_proxy
from loadgen.replay.share import owners_of, shares_of
from loadgen.replay.warmup import warmup_facts, warmup_of, without_warmup
from loadgen.replay.worker import Progress, WorkerSettings
from loadgen.replay.worker_process import WorkerProcesses
from loadgen.replay.workers import Workers, WorkerTask


@dataclass(frozen=True, slots=True)
class Run:
    """What to send, to whom, and where to keep it.

    command: the command line that asked for it, and options: as given; both without secrets.
    target_facts: what the target says of itself. records_to: a folder that all workers' machines reach, where they
    leave their records until the end; None where these come here by themselves.
    num_warmup: requests before the start, of all workers. abort_after_s: of nothing but failures; None never.
    """

    name: str
    out_dir: Path
    schedule: Schedule
    trace_name: str
    trace_rows: int
    seed: int
    settings: WorkerSettings
    asking: Asking
    prompts: Prompts
    num_workers: int = 1
    num_warmup: int = 0
    abort_after_s: float | None = None
    target_facts: dict[str, Any] | None = None
    command: tuple[str, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    records_to: str | None = None


def execute(
    run: Run,
    on_progress: Callable[[Progress], None],
    probes: Sequence[Probe] = (),
    workers_for: Callable[[Sequence[WorkerTask]], Workers] = WorkerProcesses,
) -> tuple[RunFolder, Ending]:
    """Send it all and keep what came back. Returns when requests.parquet is complete.

    workers_for: makes the workers of these tasks.
    An interrupted run is completed too: what was in flight is unfinished, the rest not_sent.
    """
    started = datetime.now(UTC)
    folder = RunFolder.create(run.out_dir, run.name, started)
    if (records_at := _records_at(run, folder)) is not None:
        try:
            made_folder(records_at)
        except UsageError:
            shutil.rmtree(folder.path)  # nothing was begun
            raise
    facts = _facts(run, folder, started)
    folder.write_schedule(run.schedule)
    folder.write_facts(facts)
    tasks = _tasks(run, folder)

    def on_start(start_unix_ns: int, start_monotonic_ns: int) -> None:
        facts.update(started_unix_ns=start_unix_ns, start_monotonic_ns=start_monotonic_ns)
        folder.write_facts(facts)

    try:
        workers = workers_for(tasks)
        ending = asyncio.run(
            run_workers(
                workers,
                [task.worker for task in tasks],
                on_start,
                on_progress,
                probes,
                run.abort_after_s,
            )
        )
    except KeyboardInterrupt:
        facts.update(status=RunStatus.INTERRUPTED, exit_reason="stopped twice")
        folder.write_facts(facts)
        raise
    except BaseException:
        facts.update(status=RunStatus.FAILED)
        folder.write_facts(facts)
        raise
    _finish(run, folder, facts, ending, workers, probes)
    return folder, ending


def _tasks(run: Run, folder: RunFolder) -> list[WorkerTask]:
    """One for each worker that has anything to send."""
    shares = {
        worker: share
        for worker, share in enumerate(shares_of(run.schedule.table, run.num_workers))
        if share.num_rows
    }
    return [
        WorkerTask(
            worker=worker,
            share=share,
            settings=replace(run.settings, num_warmup=len(range(place, run.num_warmup, len(shares)))),
            asking=replace(run.asking, run_id=folder.path.name),
            prompts=run.prompts,
            journal_path=folder.journal_path(worker),
            records_at=_records_at(run, folder),
        )
        for place, (worker, share) in enumerate(shares.items())
    ]


def _records_at(run: Run, folder: RunFolder) -> str | None:
    return None if run.records_to is None else f"{run.records_to}/{folder.path.name}"


def _finish(
    run: Run,
    folder: RunFolder,
    facts: dict[str, Any],
    ending: Ending,
    workers: Workers,
    probes: Sequence[Probe],
) -> None:
    records = folder.read_journal()
    warmup = warmup_of(records)
    if warmup.num_rows:
        folder.write_warmup(warmup)
    records = without_warmup(records)
    owners = owners_of(run.schedule.table, run.num_workers)
    fates = fates_of(run.schedule.planned_ns, owners, ending.lost)
    folder.write_requests(complete_records(records, run.schedule.table, fates=fates))
    warnings = [
        f"worker {worker} was lost ({loss.reason}); what it had not told of is unrecorded or not_sent"
        for worker, loss in ending.lost.items()
    ]
    warnings += workers.warnings
    tables = [probe.table() for probe in probes]
    for probe in probes:
        warnings += probe.warnings
    if tables:
        folder.write_telemetry(pa.concat_tables(tables))
    facts.update(
        status=_status(ending),
        exit_reason=ending.signal_name or ending.gave_up,
        ended_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        run_end_ns=ending.run_end_ns,
        records_at=None,
        warmup=warmup_facts(warmup),
        generator={
            "workers": [{**worker, **_lateness(records, worker["worker"])} for worker in ending.workers],
            "lost": list(ending.lost),
            **workers.facts,
        },
        warnings=warnings,
    )
    folder.write_facts(facts)
    # Every record is in requests.parquet now.
    shutil.rmtree(folder.path / "journal")


def _lateness(records: pa.Table, worker: int) -> dict[str, float | None]:
    """Our own part of it, of what one worker took up; None where that is nothing."""
    taken = records.filter(
        pc.and_(pc.equal(records["worker"], worker), pc.is_valid(records["dispatched_ns"]))
    )
    late_s = np.asarray(pc.subtract(taken["dispatched_ns"], taken["planned_ns"]), dtype=np.float64) / 1e9
    p50_s, p99_s, max_s = nearest_rank(late_s, [50, 99, 100])
    return {"lateness_p50_s": p50_s, "lateness_p99_s": p99_s, "lateness_max_s": max_s}


def _status(ending: Ending) -> RunStatus:
    if ending.signal_name:
        return RunStatus.INTERRUPTED
    return RunStatus.FAILED if ending.gave_up else RunStatus.COMPLETE


def _facts(run: Run, folder: RunFolder, started: datetime) -> dict[str, Any]:
    return {
        "run_id": folder.path.name,
        "name": run.name,
        "status": RunStatus.RUNNING,
        "exit_reason": None,
        "started_utc": started.isoformat(timespec="seconds"),
        "started_unix_ns": None,
        "start_monotonic_ns": None,
        "ended_utc": None,
        "run_end_ns": None,
        "records_at": _records_at(run, folder),
        "command": list(run.command),
        "settings": run.options,
        "trace": {"name": run.trace_name, "trace_id": run.schedule.trace_id, "rows": run.trace_rows},
        "schedule_hash": run.schedule.schedule_hash,
        "seed": run.seed,
        "shape": run.schedule.shape,
        "target": {
            "url": run.settings.target.url,
            "model": run.asking.model,
            "dialect": run.asking.endpoint_type,
            "transport": run.settings.transport,
            "proxy": shown_proxy(run.settings.target.proxy),
            "facts": run.target_facts,
        },
        "versions": {"loadgen": loadgen.__version__, "python": platform.python_version()},
        "host": {"platform": sys.platform, "machine": platform.machine(), "cpu_count": os.cpu_count()},
        "warmup": None,
        "generator": None,
        "warnings": [],
    }
