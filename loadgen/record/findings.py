"""What the reading of a log found besides its requests: counts, places, assumptions, warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from loadgen.record.line_batch import LineBatch

_MAX_PLACES = 5
_MAX_SHOWN_BYTES = 160


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """A line that could not be read: where, why, and its start (shown only on demand)."""

    source: str
    line: int
    reason: str
    text: str


@dataclass(slots=True)
class Findings:
    """Collector that a format writes to while it reads.

    num_other: lines that are well-formed but no request to be replayed. num_malformed: lines, or rows,
    that could not be read. num_duplicates: lines that an earlier file of the log holds, too. Assumptions and
    warnings keep their order and are told once each. lines_by_source counts new lines of whole files.
    """

    num_lines: int = 0
    num_other: int = 0
    num_malformed: int = 0
    num_duplicates: int = 0
    malformed: list[MalformedLine] = field(default_factory=list)
    lines_by_source: Counter[str] = field(default_factory=Counter)
    malformed_by_source: Counter[str] = field(default_factory=Counter)
    assumptions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add_malformed(self, source: str, line: int, reason: str, text: bytes) -> None:
        """Count a line that could not be read; the first few are kept to be shown."""
        self.num_malformed += 1
        self.malformed_by_source[source] += 1
        if len(self.malformed) < _MAX_PLACES:
            shown = text[:_MAX_SHOWN_BYTES].decode("utf-8", errors="replace")
            self.malformed.append(MalformedLine(source, line, reason, shown))

    def add_faults(
        self,
        batch: LineBatch,
        numbers: Sequence[int],
        of_rows: Mapping[int, str],
        of_lines: Sequence[tuple[int, str]] = (),
    ) -> None:
        """Count lines of `batch` at fault: rows by their place in `numbers`, and lines by their index."""
        faults = [(numbers[row], reason) for row, reason in of_rows.items()]
        faults += of_lines
        if not faults:
            return
        lines = batch.lines() if len(self.malformed) < _MAX_PLACES else []
        for index, reason in sorted(faults):
            text = lines[index] if lines else b""
            self.add_malformed(batch.source, batch.number_of(index), reason, text)

    def unread_sources(self) -> list[str]:
        """Files with lines, none of which could be read."""
        return [
            source
            for source, num_lines in self.lines_by_source.items()
            if num_lines and self.malformed_by_source[source] >= num_lines
        ]

    def copy(self) -> Findings:
        """The same findings, to be added to without changing these."""
        return replace(
            self,
            malformed=list(self.malformed),
            lines_by_source=self.lines_by_source.copy(),
            malformed_by_source=self.malformed_by_source.copy(),
            assumptions=list(self.assumptions),
            warnings=list(self.warnings),
        )

    def merge(self, other: Findings) -> None:
        """Add what another collector found in a later part of the same log."""
        self.num_lines += other.num_lines
        self.num_other += other.num_other
        self.num_malformed += other.num_malformed
        self.num_duplicates += other.num_duplicates
        self.lines_by_source.update(other.lines_by_source)
        self.malformed_by_source.update(other.malformed_by_source)
        self.malformed += other.malformed[: _MAX_PLACES - len(self.malformed)]
        for text in other.assumptions:
            self.assume(text)
        for text in other.warnings:
            self.warn(text)

    def assume(self, text: str) -> None:
        """Something taken for granted that the log does not say."""
        if text not in self.assumptions:
            self.assumptions.append(text)

    def warn(self, text: str) -> None:
        """Something that makes the trace less true than it looks."""
        if text not in self.warnings:
            self.warnings.append(text)
