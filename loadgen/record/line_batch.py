"""A batch of whole lines of one log file, with where it stands in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

# The name under which a wrapper's own moment can be asked for, as if it were a field of the line.
WRITTEN_FIELD = "@written"


@dataclass(frozen=True)
class LineBatch:
    """Whole lines of one source.

    source: base name of the file. file_index: which file of the recording it is, oldest first.
    first_line: number of the first line, from 1. data: the bytes, lines ending in LF (the last perhaps
    not). Lines taken out of a wrapper have in `written` the moment the wrapper gives for each, as it
    stands there, and in `numbers` the line of the file that each came from.
    """

    source: str
    file_index: int
    first_line: int
    data: bytes
    written: tuple[str, ...] | None = None
    numbers: tuple[int, ...] | None = None

    @property
    def is_first(self) -> bool:
        """Whether this is the start of the file."""
        return self.first_line == 1

    @property
    def is_unwrapped(self) -> bool:
        """Whether the lines come out of a wrapper, which carries lines of any kind."""
        return self.written is not None

    def number_of(self, index: int) -> int:
        """The line in the file of the line at `index` of this batch."""
        return self.first_line + index if self.numbers is None else self.numbers[index]

    def places(self, numbers: Sequence[int]) -> Callable[[int], str]:
        """Where the line of a row stands, file and line, given the index of each row's line in this batch."""
        return lambda row: f"{self.source}:{self.number_of(numbers[row])}"

    def lines(self) -> list[bytes]:
        """The lines without their line ends (LF or CR LF)."""
        lines = self.data.split(b"\n")
        if lines and not lines[-1]:
            lines.pop()
        if b"\r" in self.data:
            lines = [line.removesuffix(b"\r") for line in lines]
        return lines

    @cached_property
    def num_lines(self) -> int:
        """How many lines there are, the last one perhaps without its end."""
        return count_lines(self.data)


def count_lines(data: bytes) -> int:
    """How many lines there are in `data`, the last one perhaps without its end."""
    # numpy counts bytes at twice the speed of bytes.count.
    ended = int(np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == 0x0A))
    return ended + (not data.endswith(b"\n") if data else 0)


def cut(data: bytes, size: int) -> Iterator[bytes]:
    """Whole lines of `data` in pieces of about `size` bytes."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", min(start + size, len(data)) - 1) + 1 or len(data)
        yield data[start:end]
        start = end
