"""What the reading of a log found besides its requests: counts, places, assumptions, warnings."""

from __future__ import annotations

from dataclasses import dataclass, field

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
    that could not be read. Assumptions and warnings keep their order and are told once each.
    """

    num_lines: int = 0
    num_other: int = 0
    num_malformed: int = 0
    malformed: list[MalformedLine] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add_malformed(self, source: str, line: int, reason: str, text: bytes) -> None:
        """Count a line that could not be read; the first few are kept to be shown."""
        self.num_malformed += 1
        if len(self.malformed) < _MAX_PLACES:
            shown = text[:_MAX_SHOWN_BYTES].decode("utf-8", errors="replace")
            self.malformed.append(MalformedLine(source, line, reason, shown))

    def assume(self, text: str) -> None:
        """Something taken for granted that the log does not say."""
        if text not in self.assumptions:
            self.assumptions.append(text)

    def warn(self, text: str) -> None:
        """Something that makes the trace less true than it looks."""
        if text not in self.warnings:
            self.warnings.append(text)
