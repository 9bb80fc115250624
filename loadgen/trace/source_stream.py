"""A source file as a stream of plain bytes: decompressed by its first bytes, hashed and counted as read."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from loadgen.errors import LoadgenError
from loadgen.trace.location import open_raw
from loadgen.trace.trace import SourceFile

STDIN = Path("-")
_BLOCK_BYTES = 4 << 20
_PEEKED_BYTES = 64 << 10

# First bytes, not the name, tell the compression: rotated files are renamed.
_GZIP, _BZIP2, _XZ, _ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"


def source_name(path: Path) -> str:
    """What a source is called in messages and metadata: its base name."""
    return "(stdin)" if path == STDIN else path.name


class _HashedFile(io.RawIOBase):
    """Raw bytes of a file, counted, hashed and reported on the way."""

    def __init__(self, file: BinaryIO, on_bytes: Callable[[int], None]) -> None:
        super().__init__()
        self._file = file
        self._on_bytes = on_bytes
        self._digest = hashlib.sha256()
        self.num_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]  # a writable buffer, by the caller's contract
        size = self._file.readinto(view)  # type: ignore[attr-defined]  # binary files have it
        self._digest.update(view[:size])
        self.num_bytes += size
        self._on_bytes(size)
        return int(size)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


class SourceStream:
    """The plain bytes of `path` (`-` is standard input), once, from start to end.

    on_bytes: called with the number of raw (compressed) bytes after each read.
    error: the kind of error to raise, in one line that names the file, when it cannot be read.
    """

    def __init__(
        self,
        path: Path,
        *,
        error: type[LoadgenError],
        on_bytes: Callable[[int], None] = lambda num_bytes: None,
    ) -> None:
        self._path = path
        self._error = error
        self._on_bytes = on_bytes
        self.source_file: SourceFile | None = None

    @property
    def name(self) -> str:
        """The base name: folders are nobody's business."""
        return source_name(self._path)

    def blocks(self) -> Iterator[bytes]:
        """Blocks of plain bytes, each ending with a line end, save the last of a file without one."""
        try:
            file = cast(BinaryIO, sys.stdin.buffer) if self._path == STDIN else open_raw(self._path)
        except OSError as exc:
            hint = "give the files in it" if isinstance(exc, IsADirectoryError) else None
            raise self._error(f"{self._path}: cannot be opened ({exc.strerror})", hint=hint) from exc
        with file:
            raw = _HashedFile(file, self._on_bytes)
            try:
                yield from _whole_lines(_decompressed(io.BufferedReader(raw, _PEEKED_BYTES)))
                # Bytes behind the end of the compressed stream belong to the file's hash, too.
                while raw.read(_BLOCK_BYTES):
                    pass
            except (EOFError, OSError, lzma.LZMAError, pa.ArrowException, ValueError) as exc:
                raise self._error(
                    f"{self._path}: cannot be read ({str(exc).splitlines()[0] if str(exc) else exc})",
                    hint="the file is damaged or still being written; copy it again",
                ) from exc
            self.source_file = SourceFile(self.name, raw.num_bytes, raw.hexdigest())

    def text(self) -> str:
        """The whole content as UTF-8, without a byte order mark; bytes that are none become U+FFFD."""
        return b"".join(self.blocks()).decode("utf-8-sig", errors="replace")


def head_of(path: Path, num_bytes: int, *, error: type[LoadgenError], most_bytes: int = 0) -> bytes:
    """The first `num_bytes` plain bytes at most, for a look at the format.

    most_bytes: the line in which they end is given whole, as far as so many bytes in all reach.
    """
    block = next(SourceStream(path, error=error).blocks(), b"")
    if most_bytes <= num_bytes:
        return block[:num_bytes]
    end = block.find(b"\n", num_bytes - 1, most_bytes)
    return block[: end if end >= 0 else most_bytes]


def _decompressed(raw: io.BufferedReader) -> io.BufferedIOBase:
    start = raw.peek(8)
    if start.startswith(_GZIP):
        return cast(io.BufferedIOBase, gzip.GzipFile(fileobj=raw))
    if start.startswith(_BZIP2):
        return cast(io.BufferedIOBase, bz2.BZ2File(raw))
    if start.startswith(_XZ):
        return cast(io.BufferedIOBase, lzma.LZMAFile(raw))
    if start.startswith(_ZSTD):
        return cast(io.BufferedIOBase, pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"))
    return raw


def _whole_lines(stream: io.BufferedIOBase) -> Iterator[bytes]:
    buffer = bytearray(_BLOCK_BYTES)
    held = 0
    while size := stream.readinto(memoryview(buffer)[held:]):
        held += size
        if held < len(buffer):
            continue
        cut = buffer.rfind(b"\n") + 1
        if not cut:
            # A line longer than a block.
            buffer += bytes(len(buffer))
            continue
        yield bytes(memoryview(buffer)[:cut])
        held -= cut
        buffer[:held] = memoryview(buffer)[cut:]
    if held:
        yield bytes(memoryview(buffer)[:held])
