"""The seam for wrappers: recognise one, and take it off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch


class Wrapper(Protocol):
    """One kind of wrapper; classes with these static methods are wrappers as they stand."""

    def looks_like(self, head: Sequence[bytes], /) -> bool:
        """Whether these first lines of a log are wrapped like this."""

    def unwrap(self, batches: Iterable[LineBatch], findings: Findings, /) -> Iterator[LineBatch]:
        """The inner lines, each with the wrapper's moment; parts of one line are joined for each stream.

        Outer lines that cannot be read go to `findings`; those that came out of another wrapper go on as they are,
        since a wrapper carries lines of any kind.
        """


class Unwrapped:
    """Collects inner lines of one batch."""

    def __init__(self, outer: LineBatch) -> None:
        self._outer = outer
        self._lines: list[bytes] = []
        self._written: list[str | None] = []
        self._numbers: list[int] = []

    def add(self, line: bytes, written: str | None, number: int) -> None:
        """One inner line, without its line end; a line break within it becomes a space.

        written: the wrapper's moment as it stands there; None if it gives none. number: its line in the file.
        """
        self._lines.append(line.rstrip(b"\r\n").replace(b"\n", b" "))
        self._written.append(written)
        self._numbers.append(number)

    def pass_on(self, index: int, line: bytes, reason: str, findings: Findings) -> None:
        """The outer line at `index`, which is not of this wrapper: kept as it is if it came out of another, else
        malformed."""
        outer = self._outer
        if outer.written is not None:
            self.add(line, outer.written[index], outer.number_of(index))
        else:
            findings.add_malformed(outer.source, outer.number_of(index), reason, line)

    def batch(self) -> LineBatch:
        """What was added, as a batch at the place of the outer one."""
        outer = self._outer
        written = [moment for moment in self._written if moment is not None]
        return LineBatch(
            outer.source,
            outer.file_index,
            outer.first_line,
            b"".join(line + b"\n" for line in self._lines),
            tuple(written) if len(written) == len(self._written) else None,
            tuple(self._numbers),
        )
