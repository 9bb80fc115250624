"""A batch of whole lines of one log file, with where it stands in it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LineBatch:
    """Whole lines of one source.

    source: base name of the file. file_index: which file of the recording it is, oldest first.
    first_line: number of the first line, from 1. data: the bytes, lines ending in LF (the last perhaps
    not). is_first: whether this is the start of the file.
    """

    source: str
    file_index: int
    first_line: int
    data: bytes

    @property
    def is_first(self) -> bool:
        return self.first_line == 1

    def lines(self) -> list[bytes]:
        """The lines without their line ends (LF or CR LF)."""
        lines = self.data.split(b"\n")
        if lines and not lines[-1]:
            lines.pop()
        if b"\r" in self.data:
            lines = [line.removesuffix(b"\r") for line in lines]
        return lines

    @property
    def num_lines(self) -> int:
        return self.data.count(b"\n") + (not self.data.endswith(b"\n") if self.data else 0)
