"""Log files -> batches of lines, oldest file first, hashed as they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch
from loadgen.trace.source_stream import STDIN, SourceStream, head_of
from loadgen.trace.trace import SourceFile

_HEAD_BYTES = 256 << 10


class LogSources:
    """The files of one recording, read once, in the order given."""

    def __init__(self, paths: Sequence[Path], on_bytes: Callable[[int], None]) -> None:
        self._paths = paths
        self._on_bytes = on_bytes
        self.files: list[SourceFile] = []

    def batches(self, findings: Findings) -> Iterator[LineBatch]:
        """All lines of all files; counts them. Raises RecordError if a file cannot be read."""
        for file_index, path in enumerate(self._paths):
            stream = SourceStream(path, error=RecordError, on_bytes=self._on_bytes)
            next_line = 1
            for block in stream.blocks():
                data = block.removeprefix(b"\xef\xbb\xbf") if next_line == 1 else block
                batch = LineBatch(stream.name, file_index, next_line, data)
                next_line += batch.num_lines
                findings.num_lines += batch.num_lines
                yield batch
            assert stream.source_file is not None
            self.files.append(stream.source_file)


def head_lines(path: Path) -> list[bytes]:
    """The first lines of a file, for a look at its format; none of standard input, which is read once."""
    if path == STDIN:
        return []
    head = head_of(path, _HEAD_BYTES, error=RecordError)
    return [line.removesuffix(b"\r") for line in head.removeprefix(b"\xef\xbb\xbf").split(b"\n")]


def oldest_first(
    paths: Sequence[Path], first_stamp_ns: Callable[[LineBatch], int | None]
) -> tuple[Path, ...]:
    """`paths` by the first stamp in each, so that rotated files may be given in any order.

    Files without one near their start keep their place behind the others.
    """
    if len(paths) < 2:
        return tuple(paths)

    def start(path: Path) -> tuple[int, int]:
        lines = head_lines(path)
        if not lines:
            return (1, 0)
        stamp_ns = first_stamp_ns(LineBatch(path.name, 0, 1, b"\n".join(lines)))
        return (1, 0) if stamp_ns is None else (0, stamp_ns)

    return tuple(sorted(paths, key=start))


def refuse_twins(files: Iterable[SourceFile]) -> None:
    """Raise RecordError if two files hold the same bytes: every request would be counted twice."""
    seen: dict[str, str] = {}
    for file in files:
        if file.bytes and file.sha256 in seen:
            raise RecordError(
                f"{file.name} and {seen[file.sha256]} hold the same bytes",
                hint="give each file of the log once",
            )
        seen[file.sha256] = file.name
