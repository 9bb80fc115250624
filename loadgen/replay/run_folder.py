"""RunFolder: where one run is kept, while it runs and after."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.atomic_file import replacing, write_text
from loadgen.errors import ExitCode, RunError
from loadgen.plan.schedule import Schedule, read_schedule, write_schedule
from loadgen.replay.record_parts import batches_of, parts_of
from loadgen.replay.request_record import SCHEMA
from loadgen.replay.warmup import without_warmup

# Run folder format. Version 1 (2026-12). A reader refuses a newer version.
FORMAT_VERSION = 1
_RESTORE = "restore it, or repeat the run"
# What those who read run.json rely on; each may be null or left out.
_KINDS: dict[str, type] = {
    "format_version": int, "status": str, "run_end_ns": int, "started_unix_ns": int, "target": dict, "trace": dict,
    "settings": dict, "shape": dict, "generator": dict, "warmup": dict, "warnings": list, "command": list,
}  # fmt: skip
_WORDS = {int: "a whole number", str: "text", dict: "an object", list: "a list"}


class RunStatus(StrEnum):
    RUNNING = "running"  # also what a killed run leaves behind
    COMPLETE = "complete"
    INTERRUPTED = "interrupted"
    FAILED = "failed"  # stopped before its end by an error of set-up, or since nothing succeeded


class RunNotKept(RunError):
    """A run folder that can no longer be written to: the disk is full, or the folder is gone."""

    exit_code = ExitCode.RUN_FAILED


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One run on disk: run.json, schedule.parquet, journal/ while running, requests.parquet at its end.

    A folder is made once, under a name nobody has, and never written to by another run.
    """

    path: Path

    @classmethod
    def create(cls, parent: Path, name: str, started: datetime) -> RunFolder:
        """Make `<name>-<utc>-<id>` under `parent`; two runs in the same second get two folders."""
        safe_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"
        path = parent / f"{safe_name}-{started:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        try:
            (path / "journal").mkdir(parents=True, exist_ok=False)
        except OSError as exc:
            raise RunError(
                f"{path}: cannot be made ({exc.strerror})", hint="choose another --out-dir"
            ) from exc
        return cls(path)

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """The run at `path`. Raises RunError if it is no run folder."""
        if not (path / "run.json").is_file():
            raise RunError(
                f"{path}: is no run folder (no run.json in it)", hint="give a folder under reports/"
            )
        return cls(path)

    @property
    def requests_path(self) -> Path:
        return self.path / "requests.parquet"

    @property
    def warmup_path(self) -> Path:
        return self.path / "warmup.parquet"

    @property
    def telemetry_path(self) -> Path:
        return self.path / "telemetry.parquet"

    @property
    def report_path(self) -> Path:
        return self.path / "report.json"

    def journal_path(self, worker: int) -> Path:
        return self.path / "journal" / f"worker-{worker}.arrows"

    def write_facts(self, facts: dict[str, Any]) -> None:
        """Write run.json whole; `facts` must hold no secret. Raises RunNotKept."""
        document = {"format_version": FORMAT_VERSION, **facts}
        with _kept(self.path / "run.json") as path:
            write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")

    def read_facts(self) -> dict[str, Any]:
        path = self.path / "run.json"
        try:
            facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            raise RunError(f"{path}: cannot be read ({exc})") from exc
        if not isinstance(facts, dict):
            raise RunError(f"{path}: is no object of JSON", hint=_RESTORE)
        for name, kind in _KINDS.items():
            if facts.get(name) is not None and not isinstance(facts[name], kind):
                raise RunError(f"{path}: {name} is {facts[name]!r:.40}, not {_WORDS[kind]}", hint=_RESTORE)
        if facts.get("format_version", 0) > FORMAT_VERSION:
            raise RunError(
                f"{path}: run format {facts['format_version']} is newer than {FORMAT_VERSION}, the last known here",
                hint="install a newer loadgen",
            )
        return facts

    def write_schedule(self, schedule: Schedule) -> None:
        write_schedule(schedule, self.path / "schedule.parquet")

    def read_schedule(self) -> Schedule:
        return read_schedule(self.path / "schedule.parquet")

    def write_requests(self, records: pa.Table) -> None:
        _write_records(records, self.requests_path)

    def write_warmup(self, records: pa.Table) -> None:
        _write_records(records, self.warmup_path)

    def write_telemetry(self, samples: pa.Table) -> None:
        with _kept(self.telemetry_path) as path, replacing(path) as aside:
            pq.write_table(samples, aside, compression="zstd")

    def read_requests(self) -> pa.Table:
        """Records of the run, from requests.parquet, or from the journal of a run that was killed."""
        if self.requests_path.is_file():
            try:
                table = _with_all_columns(pq.read_table(self.requests_path, pre_buffer=False))
                refuse_without(table, SCHEMA, self.requests_path)
                return table.select(SCHEMA.names).cast(SCHEMA)
            except (OSError, ValueError, pa.ArrowException) as exc:
                raise RunError(f"{self.requests_path}: cannot be read ({exc})".splitlines()[0]) from exc
        return without_warmup(self.read_journal())

    def read_journal(self) -> pa.Table:
        """All records of a run that is not complete, its warm-up with them."""
        paths = sorted((self.path / "journal").glob("*.arrows"))
        # Of a run that was killed: what its workers had left elsewhere.
        records_at = self.read_facts().get("records_at")
        if records_at is not None:
            try:
                paths += [path for parts in parts_of(records_at).values() for path in parts]
            except Exception as exc:  # each library of a URL has errors of its own
                raise RunError(f"{records_at}: cannot be read ({exc})".splitlines()[0]) from exc
        return read_journal(paths)


@contextmanager
def _kept(path: Path) -> Iterator[Path]:
    """Yield `path` to be written. Raises RunNotKept in place of OSError; what is kept so far stays."""
    try:
        yield path
    except OSError as exc:
        raise RunNotKept(
            f"{path}: cannot be written ({os.strerror(exc.errno) if exc.errno else exc})",
            hint=f"make room; `loadgen report {path.parent}` shows what was kept until then",
        ) from exc


def _write_records(records: pa.Table, path: Path) -> None:
    # Moments and gaps hardly come twice: a dictionary of them takes half of the time and a third of the space more.
    names = [field.name for field in records.schema if pa.types.is_dictionary(field.type)]
    with _kept(path), replacing(path) as aside:
        pq.write_table(records, aside, compression="zstd", use_dictionary=names)


def _with_all_columns(table: pa.Table) -> pa.Table:
    """The table with those columns that may be null and that it lacks, as nulls."""
    for field in SCHEMA:
        if field.nullable and field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table


def refuse_without(table: pa.Table, schema: pa.Schema, path: Path) -> None:
    """Raises RunError where the table that was read from `path` lacks a column of `schema`."""
    if lacking := [name for name in schema.names if name not in table.column_names]:
        raise RunError(f"{path}: has no column {lacking[0]}", hint=_RESTORE)


def read_journal(paths: Iterable[Path]) -> pa.Table:
    """All whole record batches of the journal files; a last one that was cut by a kill is left out."""
    batches: list[pa.RecordBatch] = []
    for path in paths:
        try:
            # One by one: those before what a SIGKILL cut off are whole.
            for batch in batches_of(path):
                batches.append(batch)  # noqa: PERF402
        except (OSError, pa.ArrowException):
            continue
    return pa.Table.from_batches(batches, schema=SCHEMA)
