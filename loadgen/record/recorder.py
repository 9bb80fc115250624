"""Logs -> a Trace and how far it can be trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import loadgen
from loadgen.errors import RecordError, TraceError
from loadgen.record.fidelity import Fidelity
from loadgen.record.findings import Findings
from loadgen.record.formats.catalog import make_format
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings
from loadgen.record.sources import LogSources, head_lines, oldest_first, refuse_twins
from loadgen.record.wrappers.catalog import find_wrapper
from loadgen.record.wrappers.wrapper import Wrapper
from loadgen.record.zone import parse_moment_ns
from loadgen.trace.assemble import assemble_trace, finest_step_ns
from loadgen.trace.schema import LENGTH_COLUMNS, OUTPUT_COLUMNS, SCHEMA
from loadgen.trace.sessions import dense_sessions
from loadgen.trace.source_stream import STDIN
from loadgen.trace.trace import Trace, TraceMetadata


@dataclass(frozen=True, slots=True)
class Recording:
    """A trace, and the report on how it was got."""

    trace: Trace
    fidelity: Fidelity


def record_logs(
    paths: Sequence[Path],
    format_name: str,
    settings: RecordSettings,
    *,
    since: str | None = None,
    until: str | None = None,
    on_bytes: Callable[[int], None] = lambda num_bytes: None,
) -> Recording:
    """The requests in the files at `paths` (any order, plain or compressed, `-` = standard input) as a Trace.

    format_name: one of the catalog, or "auto". since, until: ISO stamps; keep arrivals in [since, until).
    on_bytes: told how many bytes were read, for progress.
    Raises RecordError naming the file and the reason if no trace can be had, UsageError for bad options.
    """
    if not paths:
        raise RecordError("no log file given")
    bounds = tuple(
        None if text is None else parse_moment_ns(text, settings.zone, option=option)
        for text, option in ((since, "--since"), (until, "--until"))
    )
    head = head_lines(paths[0])
    wrapping = find_wrapper(settings.wrapper, head)
    if wrapping is not None:
        head = _unwrapped_head(wrapping[1], paths[0].name, head)
    if paths[0] == STDIN and format_name == "auto":
        raise RecordError("standard input is read once, so its format is not looked at", hint="give --format")
    if format_name == "auto" and len(paths) == 1 and not any(head):
        raise RecordError(f"{paths[0].name}: the log is empty: 0 usable of 0 lines")
    try:
        name, log_format = make_format(format_name, settings, head)
    except RecordError as error:
        raise RecordError(f"{paths[0].name}: {error.message}", hint=error.hint) from error
    paths = oldest_first(paths, lambda start: _first_stamp_ns(name, settings, start, wrapping))
    findings = Findings()
    sources = LogSources(paths, on_bytes)
    gathered = _Gathered()
    batches = sources.batches(findings)
    if wrapping is not None:
        findings.assume(f"lines are wrapped: {wrapping[0]} (--wrapper overrides)")
        batches = wrapping[1].unwrap(batches, findings)
    for batch in log_format.read(batches, findings):
        gathered.add(batch)
    refuse_twins(sources.files)
    where = paths[0].name if len(paths) == 1 else f"{paths[0].name} and {len(paths) - 1} more"
    if gathered.num_rows == 0:
        raise _nothing_usable(where, name, findings)
    moments_ns, columns = gathered.columns()
    if any(bound is not None for bound in bounds):
        moments_ns, columns = _within(moments_ns, columns, bounds[0], bounds[1], findings, where)
    facts = log_format.stamp_facts()
    counts = {
        "lines": findings.num_lines,
        "requests": int(moments_ns.size),
        "other": findings.num_other,
        "malformed": findings.num_malformed,
    }
    metadata = TraceMetadata(
        origin_unix_ns=0,
        stamp_marks=facts.marks,
        arrival_from=facts.arrival_from,
        resolution_ns=_resolution_ns(moments_ns, facts),
        zone=facts.zone,
        sources=tuple(sources.files),
        recorder={
            "version": loadgen.__version__,
            "format": name,
            "settings": settings.as_document(),
            "assumptions": list(findings.assumptions),
        },
        counts=counts,
        warnings=tuple(findings.warnings),
    )
    try:
        trace = assemble_trace(moments_ns, columns, metadata)
    except TraceError as error:
        raise RecordError(f"{where}: {error.message}", hint=error.hint) from error
    return Recording(trace, _fidelity(trace, name, findings))


class _Gathered:
    """Requests of all batches, as Arrow chunks; ids of sessions only as salted hashes."""

    def __init__(self) -> None:
        self._salt = os.urandom(16)
        self._moments: list[npt.NDArray[np.int64]] = []
        self._columns: dict[str, list[pa.Array]] = {}
        self._sessions: list[bytes | None] = []
        self.num_rows = 0

    def add(self, batch: RequestBatch) -> None:
        size = batch.arrival_unix_ns.size
        if not size:
            return
        self._moments.append(batch.arrival_unix_ns)
        values = dict(batch.columns)
        sessions = values.pop("session", None)
        self._sessions += [None] * size if sessions is None else [self._hashed(one) for one in sessions]
        for name in values:
            if name not in self._columns:
                field_type = SCHEMA.field(name).type
                self._columns[name] = [pa.nulls(self.num_rows, field_type)] if self.num_rows else []
        for name, chunks in self._columns.items():
            chunks.append(_chunk(name, values.get(name), size))
        self.num_rows += size

    def columns(self) -> tuple[npt.NDArray[np.int64], dict[str, Any]]:
        moments_ns = np.concatenate(self._moments)
        columns: dict[str, Any] = {
            name: pa.chunked_array(chunks, SCHEMA.field(name).type).unify_dictionaries().combine_chunks()
            for name, chunks in self._columns.items()
        }
        if any(session is not None for session in self._sessions):
            columns["session"] = pa.array(dense_sessions(self._sessions, moments_ns), pa.int32())
        return moments_ns, columns

    def _hashed(self, session: str | None) -> bytes | None:
        if session is None:
            return None
        return blake2b(session.encode("utf-8", "surrogatepass"), digest_size=12, key=self._salt).digest()


def _chunk(name: str, values: Any, size: int) -> pa.Array:
    field_type = SCHEMA.field(name).type
    if values is None:
        return pa.nulls(size, field_type)
    if pa.types.is_dictionary(field_type):
        return pa.array(values, pa.string()).dictionary_encode().cast(field_type)
    if isinstance(values, pa.Array):
        return values.cast(field_type)
    return pa.array(values, field_type)


def _unwrapped_head(wrapper: type[Wrapper], source: str, head: Sequence[bytes]) -> list[bytes]:
    start = LineBatch(source, 0, 1, b"\n".join(head))
    return [line for batch in wrapper.unwrap([start], Findings()) for line in batch.lines()]


def _first_stamp_ns(
    name: str, settings: RecordSettings, head: LineBatch, wrapping: tuple[str, type[Wrapper]] | None
) -> int | None:
    """The first arrival that `head` holds, read by a reader of its own."""
    _, log_format = make_format(name, settings, head.lines())
    batches: Iterator[LineBatch] = iter([head])
    if wrapping is not None:
        batches = wrapping[1].unwrap(batches, Findings())
    try:
        for batch in log_format.read(batches, Findings()):
            if batch.arrival_unix_ns.size:
                return int(batch.arrival_unix_ns[0])
    except RecordError:
        # The start alone may not be readable (Parquet ends with its index); a true fault shows in the reading.
        return None
    return None


def _within(
    moments_ns: npt.NDArray[np.int64],
    columns: Mapping[str, Any],
    since_ns: int | None,
    until_ns: int | None,
    findings: Findings,
    where: str,
) -> tuple[npt.NDArray[np.int64], dict[str, Any]]:
    keep = np.ones(moments_ns.size, dtype=bool)
    if since_ns is not None:
        keep &= moments_ns >= since_ns
    if until_ns is not None:
        keep &= moments_ns < until_ns
    if not keep.any():
        raise RecordError(
            f"{where}: 0 of {moments_ns.size} requests lie between --since and --until",
            hint="check the zone of the two, and the days that the log covers",
        )
    findings.num_other += int(moments_ns.size - keep.sum())
    findings.assume(f"{int(moments_ns.size - keep.sum())} requests outside --since/--until count as other")
    return moments_ns[keep], {name: column.filter(pa.array(keep)) for name, column in columns.items()}


def _nothing_usable(where: str, name: str, findings: Findings) -> RecordError:
    if findings.num_lines == 0:
        return RecordError(f"{where}: the log is empty: 0 usable of 0 lines")
    reason = ""
    if findings.malformed:
        first = findings.malformed[0]
        reason = f"; {first.source}:{first.line}: {first.reason}"
    hint = "is it the right --format?"
    if findings.num_other:
        hint = "every request was filtered out: check --path" + (
            "" if not findings.num_malformed else " and --format"
        )
    return RecordError(
        f"{where}: 0 usable of {findings.num_lines} lines as {name} "
        f"({findings.num_other} other, {findings.num_malformed} malformed){reason}",
        hint=hint,
    )


def _resolution_ns(moments_ns: npt.NDArray[np.int64], facts: StampFacts) -> int | None:
    if facts.resolution_ns is not None:
        return facts.resolution_ns
    return finest_step_ns(moments_ns)


def _fidelity(trace: Trace, name: str, findings: Findings) -> Fidelity:
    missing = {
        column: trace.table.column(column).null_count / trace.num_rows
        for column in (*LENGTH_COLUMNS, "duration_ns")
        if trace.table.column(column).null_count < trace.num_rows
    }
    if not any(column in missing for column in OUTPUT_COLUMNS):
        findings.warn("no output lengths: replay cannot ask for answers of the recorded length")
    span_s = trace.span_s
    return Fidelity(
        format_name=name,
        num_lines=findings.num_lines,
        num_requests=trace.num_rows,
        num_other=findings.num_other,
        num_malformed=findings.num_malformed,
        num_out_of_order=trace.metadata.counts["out_of_order"],
        span_s=span_s,
        rate_per_s=(trace.num_rows - 1) / span_s if span_s > 0 else None,
        resolution_ns=trace.metadata.resolution_ns,
        missing=missing,
        malformed=tuple(findings.malformed),
        assumptions=tuple(findings.assumptions),
        warnings=tuple(findings.warnings),
    )
