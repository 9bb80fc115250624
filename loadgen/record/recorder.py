"""Logs -> a recording: which files, which format, and all lines read."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import loadgen
from loadgen.errors import RecordError, UsageError
from loadgen.record.arrival_order import ArrivalOrder
from loadgen.record.findings import Findings
from loadgen.record.formats.catalog import fields_there, make_format
from loadgen.record.formats.log_format import LogFormat
from loadgen.record.line_batch import LineBatch
from loadgen.record.prefix_blocks import BLOCK_TOKENS
from loadgen.record.reading import read_requests
from loadgen.record.recording import Recording
from loadgen.record.request_batch import RequestBatch
from loadgen.record.request_store import RequestStore
from loadgen.record.selection import EVERYTHING, Selection
from loadgen.record.settings import RecordSettings
from loadgen.record.sources import LONGEST_HEAD_BYTES, LogSources, Sources, head_lines, oldest_first
from loadgen.record.wrappers.catalog import find_wrapper
from loadgen.record.wrappers.nesting import unwrapped_head
from loadgen.record.wrappers.wrapper import Wrapper
from loadgen.trace.location import is_remote
from loadgen.trace.source_stream import STDIN, source_name
from loadgen.trace.trace import SourceFile, TraceMetadata


def record_logs(
    paths: Sequence[Path],
    format_name: str,
    settings: RecordSettings,
    selection: Selection = EVERYTHING,
    *,
    num_workers: int = 1,
    on_bytes: Callable[[int], None] = lambda num_bytes: None,
    files_reader: FilesReader | None = None,
) -> Recording:
    """The requests in the files at `paths` (any order, plain or compressed, `-` = standard input).

    format_name: one of the catalog, or "auto". num_workers: processes that read lines, where the format allows more
    than one. on_bytes: told how many bytes were read, for progress. files_reader: reads each file apart, where
    the format allows it.
    Raises RecordError naming the file and the reason if no trace can be had, UsageError for bad options.
    """
    recorder = Recorder(paths, format_name, settings, selection)
    if files_reader is not None and recorder.can_read_files_apart:
        requests = recorder.read_files(files_reader, on_bytes)
    else:
        requests = recorder.read(LogSources(recorder.paths, on_bytes), num_workers)
    for _ in requests:
        pass
    return recorder.recording()


class FilesReader(Protocol):
    """Reads the files of a log apart from each other. files: those read so far, for the trace's metadata."""

    @property
    def files(self) -> Sequence[SourceFile]: ...

    def requests(
        self,
        log_format: LogFormat,
        paths: Sequence[Path],
        findings: Findings,
        on_bytes: Callable[[int], None],
    ) -> Iterator[RequestBatch]:
        """The requests in all files, in their order. Raises RecordError as the format does."""
        ...


class Recorder:
    """Reads the logs at `paths`; `recording` gives what was found, at any time.

    Raises RecordError and UsageError as `record_logs` does.
    """

    def __init__(
        self, paths: Sequence[Path], format_name: str, settings: RecordSettings, selection: Selection
    ) -> None:
        if not paths:
            raise RecordError("no log file given")
        self._settings = settings
        self._selection = selection
        if list(paths).count(STDIN) > 1:
            raise UsageError("standard input is given more than once", hint="give - once")
        for path in paths:
            # A file is opened for a look at its format and again to be read: a pipe would then wait for ever.
            if path != STDIN and not is_remote(path) and path.is_fifo():
                raise UsageError(
                    f"{path}: a pipe, which can be read once only",
                    hint=f"give it as standard input: - --format NAME < {path}",
                )
        head = head_lines(paths[0])
        self._wrapping = find_wrapper(settings.wrapper, head)
        if self._wrapping is not None:
            head = unwrapped_head(self._wrapping[1], head)
        if paths[0] == STDIN and format_name == "auto":
            raise RecordError(
                "standard input is read once, so its format is not looked at", hint="give --format"
            )
        if format_name == "auto" and len(paths) == 1 and not any(head):
            raise RecordError(f"{source_name(paths[0])}: the log is empty: 0 usable of 0 lines")
        try:
            self._name, self._format = make_format(format_name, settings, head)
        except RecordError as error:
            is_cut = len(b"\n".join(head)) >= LONGEST_HEAD_BYTES
            seen = f" (the first {LONGEST_HEAD_BYTES >> 20} MiB were looked at)" if is_cut else ""
            raise RecordError(f"{source_name(paths[0])}: {error.message}{seen}", hint=error.hint) from error
        self._fields_there = fields_there(self._name, head)
        self.paths = oldest_first(
            paths,
            lambda start: _first_stamp_ns(self._name, settings, start, self._wrapping),
            in_one_year=settings.year is not None,
        )
        self._findings = Findings()
        self._store = RequestStore(os.urandom(16))
        self._order = ArrivalOrder()
        self._sources: Sources | FilesReader | None = None
        self._num_found = 0

    def read(self, sources: Sources, num_workers: int = 1) -> Iterator[int]:
        """Read all that `sources` gives; yields the number of requests found so far, after each batch."""
        self._sources = sources
        findings = self._findings
        batches = sources.batches(findings)
        if self._wrapping is not None:
            findings.assume(f"lines are wrapped: {self._wrapping[0]} (--wrapper overrides)")
            batches = self._wrapping[1].unwrap(batches, findings)
        yield from self._keep(read_requests(self._format, batches, findings, num_workers))

    @property
    def can_read_files_apart(self) -> bool:
        """Whether no file needs what stands in another: no long lines split by a wrapper, no stream, no state."""
        return (
            self._wrapping is None
            and len(self.paths) > 1
            and STDIN not in self.paths
            and not getattr(self._format, "order_matters", True)
        )

    def read_files(self, reader: FilesReader, on_bytes: Callable[[int], None]) -> Iterator[int]:
        """As `read`, by a reader that takes each file apart from the others."""
        self._sources = reader
        yield from self._keep(reader.requests(self._format, self.paths, self._findings, on_bytes))

    def _keep(self, requests: Iterator[RequestBatch]) -> Iterator[int]:
        for batch in requests:
            kept = self._selection.kept(batch, self._num_found)
            self._num_found += batch.num_rows
            self._store.add(kept)
            self._order.add(kept.arrival_unix_ns, kept.end_unix_ns)
            yield self._store.num_rows

    def _advice(self, findings: Findings) -> str:
        """What to look at when no request was found."""
        is_time_bad = any(place.reason.startswith("the time ") for place in findings.malformed)
        if self._settings.time_field is not None and is_time_bad and self._fields_there:
            return f"is {self._settings.time_field} the field of the time?{self._fields_there[1:]}"
        if not findings.num_other:
            return "is it the right --format?"
        needs = getattr(self._format, "needs", None)
        if needs is not None:
            return f"{needs}; is it the right --format?"
        prefixes = self._settings.path_prefixes
        if prefixes:
            return f"no path begins with {' or '.join(prefixes)}: check --path, and --format"
        return "no line is a POST request: --path / keeps those of any method; is it the right --format?"

    def recording(self) -> Recording:
        """What was found so far. Raises RecordError if that is nothing."""
        findings, selection = self._findings.copy(), self._selection
        first = source_name(self.paths[0])
        where = first if len(self.paths) == 1 else f"{first} and {len(self.paths) - 1} more"
        if self._num_found == 0:
            raise _nothing_usable(where, self._name, findings, self._advice(findings))
        num_left_out = self._num_found - self._store.num_rows
        for source in findings.unread_sources():
            findings.warn(f"{source}: no line of it could be read as {self._name}; is it of another format?")
        if self._store.num_rows == 0:
            raise RecordError(
                f"{where}: 0 of {self._num_found} requests are left by {selection.description}",
                hint=selection.advice,
            )
        if num_left_out:
            findings.num_other += num_left_out
            findings.assume(f"{num_left_out} requests left out by {selection.description} count as other")
        if self._settings.prefix_salt is not None and not self._store.has("prefix_blocks"):
            raise RecordError(
                f"{where}: --prefix-blocks: this log holds no prompts, as {self._name}",
                hint="--prompt-field names them in tables and JSON lines",
            )
        facts = self._format.stamp_facts()
        metadata = TraceMetadata(
            origin_unix_ns=None if facts.is_relative else 0,
            stamp_marks=facts.marks,
            arrival_from=facts.arrival_from,
            resolution_ns=facts.resolution_ns,
            zone=facts.zone,
            prefix_block_tokens=None if self._settings.prefix_salt is None else BLOCK_TOKENS,
            sources=tuple(self._sources.files) if self._sources is not None else (),
            recorder={
                "version": loadgen.__version__,
                "format": self._name,
                "settings": self._settings.as_document() | selection.as_document(),
            },
        )
        return Recording(self._store, self._order, findings, metadata, busiest_ns=selection.busiest_ns)


def _first_stamp_ns(
    name: str, settings: RecordSettings, head: LineBatch, wrapping: tuple[str, Wrapper] | None
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


def _nothing_usable(where: str, name: str, findings: Findings, hint: str) -> RecordError:
    if findings.num_lines == 0:
        return RecordError(f"{where}: the log is empty: 0 usable of 0 lines")
    reason = ""
    if findings.malformed:
        first = findings.malformed[0]
        reason = f"; {first.source}:{first.line}: {first.reason}"
    return RecordError(
        f"{where}: 0 usable of {findings.num_lines} lines as {name} "
        f"({findings.num_other} other, {findings.num_malformed} malformed){reason}",
        hint=hint,
    )
