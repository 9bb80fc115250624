"""The files of a log, each read by a task of a Ray cluster. Only who asked for a cluster imports this."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import ray

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import LogFormat
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.sources import FileLines
from loadgen.trace.location import is_remote
from loadgen.trace.trace import SourceFile

# Batches of the first file that are read here, for the format to learn what the log is like.
_LEARNED_FROM = 8
_MAX_RETRIES = 3  # of a file whose node was lost


class RayFiles:
    """Reads files in parallel and gives their requests in the order of the files.

    A file that turns out to begin with what the one before holds is read once more, from where it goes on.
    """

    def __init__(self) -> None:
        self.files: list[SourceFile] = []

    def requests(
        self,
        log_format: LogFormat,
        paths: Sequence[Path],
        findings: Findings,
        on_bytes: Callable[[int], None],
    ) -> Iterator[RequestBatch]:
        """All requests, in order. Every node must reach the files under the same names.

        Raises RecordError as the format does, where a node does not have a file, and where a file's node is lost
        again and again.
        """
        # A task runs in another folder.
        paths = [path if is_remote(path) else path.absolute() for path in paths]
        first = FileLines(paths[0], 0, paths[1], 0, on_bytes)
        batches = first.batches(findings)
        yield from log_format.read(list(islice(batches, _LEARNED_FROM)), findings)
        if getattr(log_format, "order_matters", True):
            # What it has learned is that its lines are to be read one after the other.
            yield from log_format.read(self._all_here(first, batches, paths, findings, on_bytes), findings)
            return
        learned = ray.put(log_format)
        streams = {index: _begin(learned, paths, index, 0) for index in range(1, len(paths))}
        yield from log_format.read(batches, findings)
        self.files.append(first.source_file)
        to_skip = first.repeated_bytes
        for index in range(1, len(paths)):
            stream = streams.pop(index)
            if to_skip:
                stream = _begin(learned, paths, index, to_skip)
            for given, found in _taken(stream, paths[index]):
                findings.merge(found)
                if isinstance(given, _FileEnd):
                    self.files.append(given.source_file)
                    on_bytes(given.source_file.bytes)
                    to_skip = given.repeated_bytes
                else:
                    yield from given

    def _all_here(
        self,
        first: FileLines,
        rest_of_first: Iterator[LineBatch],
        paths: Sequence[Path],
        findings: Findings,
        on_bytes: Callable[[int], None],
    ) -> Iterator[LineBatch]:
        lines = first
        yield from rest_of_first
        self.files.append(lines.source_file)
        for index in range(1, len(paths)):
            lines = FileLines(paths[index], index, _after(paths, index), lines.repeated_bytes, on_bytes)
            yield from lines.batches(findings)
            self.files.append(lines.source_file)


class _FileEnd:
    """The last word of a task: what FileLines knows when all lines were taken."""

    def __init__(self, lines: FileLines) -> None:
        self.source_file = lines.source_file
        self.repeated_bytes = lines.repeated_bytes


_Given = tuple[list[RequestBatch] | _FileEnd, Findings]


def _after(paths: Sequence[Path], index: int) -> Path | None:
    return paths[index + 1] if index + 1 < len(paths) else None


def _begin(learned: Any, paths: Sequence[Path], index: int, to_skip: int) -> Any:
    """Start a task for one file; gives its stream of what it finds."""
    task = ray.remote(_read_file).options(
        num_cpus=1, num_returns="streaming", scheduling_strategy="SPREAD", max_retries=_MAX_RETRIES
    )
    return task.remote(learned, paths[index], index, _after(paths, index), to_skip)


def _read_file(
    log_format: LogFormat, path: Path, file_index: int, following: Path | None, to_skip: int
) -> Iterator[_Given]:
    """In a task: the requests of one file, with what was found, batch by batch; then its end."""
    if not is_remote(path) and not path.exists():
        raise RecordError(
            f"{path}: is not on node {ray.util.get_node_ip_address()} of the cluster",
            hint="give logs that every node reaches under the same name: in a shared folder, or as URLs",
        )
    lines = FileLines(path, file_index, following, to_skip, lambda num_bytes: None)
    counted = Findings()
    for batch in lines.batches(counted):
        found = Findings()
        requests = list(log_format.read([batch], found))
        yield requests, found
    yield _FileEnd(lines), counted


def _taken(stream: Any, path: Path) -> Iterator[_Given]:
    try:
        for ref in stream:
            given: _Given = ray.get(ref)
            yield given
    except ray.exceptions.RayTaskError as exc:
        if isinstance(exc.cause, RecordError):
            raise exc.cause from None
        raise RecordError(f"{path}: a task of the cluster failed ({exc.cause})") from exc
    except ray.exceptions.RayError as exc:
        raise RecordError(
            f"{path}: the node that read it was lost ({str(exc).strip().splitlines()[0]})", hint="try again"
        ) from exc
