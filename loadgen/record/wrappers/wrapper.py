"""The seam for wrappers: recognise one, and take it off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch


class Wrapper(Protocol):
    """One kind of wrapper."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        """Whether these first lines of a log are wrapped like this."""

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        """The inner lines, each with the wrapper's moment; parts of one line are joined for each stream.

        Outer lines that cannot be read go to `findings`.
        """


class Unwrapped:
    """Collects inner lines of one batch."""

    def __init__(self, outer: LineBatch) -> None:
        self._outer = outer
        self._lines: list[bytes] = []
        self._written: list[str] = []
        self._numbers: list[int] = []

    def add(self, line: bytes, written: str, number: int) -> None:
        """One inner line, without its line end; a line break within it becomes a space."""
        self._lines.append(line.rstrip(b"\r\n").replace(b"\n", b" "))
        self._written.append(written)
        self._numbers.append(number)

    def batch(self) -> LineBatch:
        """What was added, as a batch at the place of the outer one."""
        outer = self._outer
        return LineBatch(
            outer.source,
            outer.file_index,
            outer.first_line,
            b"".join(line + b"\n" for line in self._lines),
            tuple(self._written),
            tuple(self._numbers),
        )
