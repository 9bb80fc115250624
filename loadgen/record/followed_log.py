"""A log that is still being written, read as it grows and across its rotation."""

from __future__ import annotations

import hashlib
import os
import select
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from loadgen.errors import RecordError
from loadgen.trace.source_stream import STDIN
from loadgen.trace.trace import SourceFile

_READ_BYTES = 1 << 20
_POLL_S = 0.1
# Writers go on writing to a file that was renamed until they are told to open the new one.
_QUIET_S = 2.0
# The last bytes read, by which a file that was cut and grew again is told from one that only grew.
_TAIL_BYTES = 4096

Sleep = Callable[[float], None]


class FollowedLog:
    """Yields what is written to `path` as blocks of whole lines, earlier content first; b"" when there is nothing.

    A file that is renamed (rotation by rename) is read to its end, then the new one under its name. A file that is
    cut (copytruncate) is read on from its start; what was written to it between the last read and the cut is
    taken from the copy beside it. `-` is standard input. stopped: asked between reads whether to end; then what is
    there already is read first. Raises RecordError if the file cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        stopped: Callable[[], bool],
        *,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Sleep = time.sleep,
    ) -> None:
        self._path = path
        self._stopped = stopped
        self._now_s = now_s
        self._sleep = sleep
        self._digest = hashlib.sha256()
        self._num_bytes = 0
        self.num_rotations = 0

    @property
    def name(self) -> str:
        """The base name."""
        return "(stdin)" if self._path == STDIN else self._path.name

    @property
    def source_file(self) -> SourceFile:
        """What was read so far, as one source."""
        return SourceFile(self.name, self._num_bytes, self._digest.hexdigest())

    def blocks(self) -> Iterator[bytes]:
        """Whole lines as they come, until stopped."""
        rest = b""
        for data in self._pieces():
            self._digest.update(data)
            self._num_bytes += len(data)
            whole, end, last = (rest + data).rpartition(b"\n")
            rest = last
            yield whole + end
        if rest:
            yield rest

    def _pieces(self) -> Iterator[bytes]:
        if self._path == STDIN:
            yield from self._from_stdin()
            return
        waiting = [_OpenFile(self._path)]
        quiet_since_s = self._now_s()
        while True:
            is_last_round = self._stopped()
            # Looked at before reading: what is found here was there before the file was read to its end.
            self._look_for_new_file(waiting)
            data = waiting[0].read()
            if data:
                quiet_since_s = self._now_s()
                yield data
                continue
            if len(waiting) > 1 and (is_last_round or self._now_s() - quiet_since_s >= _QUIET_S):
                waiting.pop(0).close()
                self.num_rotations += 1
                quiet_since_s = self._now_s()
                continue
            if is_last_round:
                waiting[0].close()
                return
            yield b""
            self._sleep(_POLL_S)

    def _look_for_new_file(self, waiting: list[_OpenFile]) -> None:
        """Open what stands under the name now, if it is another file; it is read after those before it."""
        try:
            if self._path.stat().st_ino != waiting[-1].inode:
                waiting.append(_OpenFile(self._path))
        except (FileNotFoundError, RecordError):
            # Between the renaming of the old file and the making of the new one.
            return

    def _from_stdin(self) -> Iterator[bytes]:
        descriptor = sys.stdin.fileno()
        while not self._stopped():
            if not select.select([descriptor], [], [], _POLL_S)[0]:
                yield b""
                continue
            data = os.read(descriptor, _READ_BYTES)
            if not data:
                return
            yield data


class _OpenFile:
    """A file that may be renamed or cut while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("rb", buffering=0)
        except OSError as exc:
            raise RecordError(f"{path}: cannot be opened ({exc.strerror})") from exc
        self.inode = os.fstat(self._file.fileno()).st_ino
        self._position = 0
        self._tail = b""

    def read(self) -> bytes:
        """What was written since the last call; b"" if nothing was."""
        descriptor = self._file.fileno()
        size = os.fstat(descriptor).st_size
        if size < self._position or not self._is_where_we_were(descriptor):
            data = self._left_in_copy()
            self._position, self._tail = 0, b""
            if data:
                return data
        data = os.pread(descriptor, _READ_BYTES, self._position)
        self._position += len(data)
        self._tail = (self._tail + data)[-_TAIL_BYTES:]
        return data

    def close(self) -> None:
        self._file.close()

    def _is_where_we_were(self, descriptor: int) -> bool:
        return os.pread(descriptor, len(self._tail), self._position - len(self._tail)) == self._tail

    def _left_in_copy(self) -> bytes:
        """What a copy of this file, made before it was cut, holds behind the place to which it was read."""
        copies = [path for path in self._path.parent.glob(f"{self._path.name}[.-]*") if path.is_file()]
        for path in sorted(copies, key=lambda copy: copy.stat().st_mtime_ns, reverse=True):
            with path.open("rb") as copy:
                copy.seek(max(0, self._position - len(self._tail)))
                if self._tail and copy.read(len(self._tail)) == self._tail:
                    return copy.read()
        return b""
