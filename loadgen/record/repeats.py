"""What a log file repeats of the one before it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loadgen.errors import RecordError
from loadgen.trace.source_stream import STDIN, SourceStream, head_of

_HEAD_BYTES = 64 << 10
# Places where the following file may begin within this one; more means that its first line tells nothing.
_MAX_PLACES = 8


class RepeatSearch:
    """Finds how much of `following` stands in `path` already: all of it, or up to the end of `path`.

    A copy that a rotation made before it cut the log (copytruncate) holds lines that the log holds still. Equal
    lines within one file are requests of their own, and stay.
    """

    def __init__(self, path: Path, following: Path) -> None:
        self.following = following
        self._path = path
        self._first_line = b""
        self._places: list[int] = []
        self._num_seen = 0
        if STDIN not in (path, following):
            head = head_of(following, _HEAD_BYTES, error=RecordError)
            line, end, _ = head.partition(b"\n")
            self._first_line = line + end

    def see(self, block: bytes) -> None:
        """Look at the next whole lines of `path`."""
        at = block.find(self._first_line) if self._first_line else -1
        while at >= 0 and len(self._places) <= _MAX_PLACES:
            if at == 0 or block[at - 1] == 0x0A:
                self._places.append(self._num_seen + at)
            at = block.find(self._first_line, at + 1)
        self._num_seen += len(block)

    def repeated_bytes(self) -> int:
        """How many bytes of `following`, from its start, are a repetition. Call when all of `path` was seen."""
        if len(self._places) > _MAX_PLACES:
            return 0
        return next((length for place in self._places if (length := self._common_bytes(place))), 0)

    def _common_bytes(self, place: int) -> int:
        """The length of what `path` from `place` on and `following` share, if one of them ends with it; else 0."""
        ours, theirs = _bytes_from(self._path, place), _bytes_from(self.following, 0)
        shared, left, right = 0, b"", b""
        while True:
            left = left or next(ours, b"")
            right = right or next(theirs, b"")
            size = min(len(left), len(right))
            if not size:
                return shared
            if left[:size] != right[:size]:
                return 0
            shared += size
            left, right = left[size:], right[size:]


def _bytes_from(path: Path, start: int) -> Iterator[bytes]:
    for block in SourceStream(path, error=RecordError).blocks():
        if start < len(block):
            yield block[start:]
        start = max(0, start - len(block))
