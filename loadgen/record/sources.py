"""Log files -> batches of lines, oldest file first, hashed as they are read."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.followed_log import FollowedLog
from loadgen.record.line_batch import LineBatch
from loadgen.record.repeats import RepeatSearch
from loadgen.record.year import HALF_YEAR_NS
from loadgen.trace.source_stream import STDIN, SourceStream, head_of
from loadgen.trace.trace import SourceFile

_HEAD_BYTES = 256 << 10
# A line at their end is read on to here: one request with a long text is a line of its own.
LONGEST_HEAD_BYTES = 16 << 20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Sources(Protocol):
    """Where lines come from. files: what was read so far, for the trace's metadata."""

    @property
    def files(self) -> Sequence[SourceFile]: ...

    def batches(self, findings: Findings) -> Iterator[LineBatch]:
        """All lines; counts them. Raises RecordError if a file cannot be read."""


class FollowedSources:
    """Files that are complete, read once, then a log that is still being written, until it is stopped.

    While nothing is written, empty batches are given from time to time.
    """

    def __init__(self, complete: LogSources, followed: FollowedLog) -> None:
        self._complete = complete
        self._followed = followed

    @property
    def files(self) -> Sequence[SourceFile]:
        return [*self._complete.files, self._followed.source_file]

    def batches(self, findings: Findings) -> Iterator[LineBatch]:
        yield from self._complete.batches(findings)
        next_line = 1
        for block in self._followed.blocks():
            batch = LineBatch(self._followed.name, len(self._complete.files), next_line, block)
            next_line += batch.num_lines
            findings.num_lines += batch.num_lines
            yield batch


class LogSources:
    """The files of one recording, read once, in the order given.

    A file that begins with what an earlier one ends with (a copy made at rotation before the log was cut, or a file
    given twice) is read from where it goes on.
    """

    def __init__(self, paths: Sequence[Path], on_bytes: Callable[[int], None]) -> None:
        self._paths = paths
        self._on_bytes = on_bytes
        self.files: list[SourceFile] = []

    def batches(self, findings: Findings) -> Iterator[LineBatch]:
        """All lines of all files; counts them. Raises RecordError if a file cannot be read."""
        repeated_bytes = 0
        for file_index, path in enumerate(self._paths):
            following = self._paths[file_index + 1] if file_index + 1 < len(self._paths) else None
            lines = FileLines(path, file_index, following, repeated_bytes, self._on_bytes)
            yield from lines.batches(findings)
            repeated_bytes = lines.repeated_bytes
            self.files.append(lines.source_file)


class FileLines:
    """The lines of one file of a log, from `to_skip` bytes on, which an earlier file holds, too.

    following: the next file. When all batches were taken, source_file describes this one, and repeated_bytes
    says how much of the following one stands here already.
    """

    source_file: SourceFile
    repeated_bytes: int

    def __init__(
        self,
        path: Path,
        file_index: int,
        following: Path | None,
        to_skip: int,
        on_bytes: Callable[[int], None],
    ) -> None:
        self._path = path
        self._file_index = file_index
        self._following = following
        self._to_skip = to_skip
        self._on_bytes = on_bytes

    def batches(self, findings: Findings) -> Iterator[LineBatch]:
        """All lines; counts them. Raises RecordError if the file cannot be read."""
        stream = SourceStream(self._path, error=RecordError, on_bytes=self._on_bytes)
        search = RepeatSearch(self._path, self._following) if self._following is not None else None
        next_line, to_skip = 1, self._to_skip
        for block in stream.blocks():
            if search is not None:
                search.see(block)
            skipped = block[:to_skip]
            to_skip -= len(skipped)
            num_skipped = skipped.count(b"\n") + (bool(skipped) and not skipped.endswith(b"\n"))
            findings.num_duplicates += num_skipped
            data = block[len(skipped) :]
            is_start = next_line == 1 and not skipped
            next_line += num_skipped
            batch = LineBatch(
                stream.name,
                self._file_index,
                next_line,
                data.removeprefix(_BYTE_ORDER_MARK) if is_start else data,
            )
            next_line += batch.num_lines
            findings.num_lines += num_skipped + batch.num_lines
            findings.lines_by_source[stream.name] += batch.num_lines
            if batch.data:
                yield batch
        self.repeated_bytes = 0
        if search is not None:
            self.repeated_bytes = search.repeated_bytes()
            if self.repeated_bytes:
                findings.warn(
                    f"{search.following.name} begins with lines that {stream.name} holds, too: left out there"
                )
        assert stream.source_file is not None
        self.source_file = stream.source_file


def head_lines(path: Path) -> list[bytes]:
    """The first lines of a file, for a look at its format; none of standard input, which is read once."""
    if path == STDIN:
        return []
    head = head_of(path, _HEAD_BYTES, error=RecordError, most_bytes=LONGEST_HEAD_BYTES)
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise RecordError(f"{path.name}: the text is UTF-16", hint="convert it: iconv -f UTF-16 -t UTF-8")
    return [line.removesuffix(b"\r") for line in head.removeprefix(_BYTE_ORDER_MARK).split(b"\n")]


def oldest_first(
    paths: Sequence[Path], first_stamp_ns: Callable[[LineBatch], int | None], *, in_one_year: bool = False
) -> tuple[Path, ...]:
    """`paths` by the first stamp in each, so that rotated files may be given in any order.

    Files without one near their start keep their place behind the others. in_one_year: stamps carry no year and are
    read in the same one, so that the files behind half a year without any are those of the year before.
    """
    if len(paths) < 2:
        return tuple(paths)

    def start(path: Path) -> int | None:
        lines = head_lines(path)
        return first_stamp_ns(LineBatch(path.name, 0, 1, b"\n".join(lines))) if lines else None

    starts = [(start_ns, path) for path in paths if (start_ns := start(path)) is not None]
    starts.sort(key=lambda pair: pair[0])
    if in_one_year:
        gaps = (
            place for place in range(1, len(starts)) if starts[place][0] - starts[place - 1][0] > HALF_YEAR_NS
        )
        first = next(gaps, 0)
        starts = starts[first:] + starts[:first]
    ordered = [path for _, path in starts]
    return (*ordered, *(path for path in paths if path not in ordered))
