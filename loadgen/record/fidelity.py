"""How far a recording can be trusted, and whether to go on with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from loadgen.record.findings import MalformedLine
from loadgen.trace.schema import INPUT_COLUMNS

# Above this share of lines that could not be read, the format is more likely wrong than the lines.
_MALFORMED_SUSPICIOUS = 0.05
_RESOLUTION_COARSE_NS = 10**8


@dataclass(frozen=True, slots=True)
class Fidelity:
    """What a recording found and took for granted.

    missing: share of requests without a value, for each length column that holds any, and for duration.
    resolution_ns: the finest step of the arrivals, None when unknown. peak_1s: most arrivals in any second.
    largest_gap_s: the longest time without an arrival; None for one request.
    """

    format_name: str
    num_lines: int
    num_requests: int
    num_other: int
    num_malformed: int
    num_duplicates: int
    num_out_of_order: int
    num_clock_steps: int
    span_s: float
    rate_per_s: float | None
    peak_1s: int
    largest_gap_s: float | None
    resolution_ns: int | None
    missing: dict[str, float]
    malformed: tuple[MalformedLine, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """One sentence a person can act on."""
        share = self.num_malformed / max(1, self.num_malformed + self.num_requests + self.num_other)
        if share > 0.5 or (share > _MALFORMED_SUSPICIOUS and self.num_malformed > 10):
            return (
                f"doubtful: {share:.0%} of the lines could not be read; "
                "check --format and the field options before replaying"
            )
        if not any(column in self.missing for column in INPUT_COLUMNS):
            return "arrivals only: without input lengths the trace can be neither planned nor replayed"
        if self.resolution_ns is not None and self.resolution_ns > _RESOLUTION_COARSE_NS:
            return (
                "usable for rates, not for bursts: arrivals are known to "
                f"{self.resolution_ns / 1e9:g} s only; log the moment in ms"
            )
        if share > _MALFORMED_SUSPICIOUS:
            return f"usable, if the {self.num_malformed} lines that could not be read are no requests"
        if self.warnings:
            return "usable, with the warnings above in mind"
        return "good: arrivals and lengths are as the log has them"

    def as_document(self, *, show_lines: bool) -> dict[str, Any]:
        """JSON-ready; the text of malformed lines only if `show_lines`."""
        return {
            "format": self.format_name,
            "lines": self.num_lines,
            "requests": self.num_requests,
            "other": self.num_other,
            "malformed": self.num_malformed,
            "duplicates": self.num_duplicates,
            "out_of_order": self.num_out_of_order,
            "clock_steps": self.num_clock_steps,
            "span_s": self.span_s,
            "rate_per_s": self.rate_per_s,
            "peak_1s": self.peak_1s,
            "largest_gap_s": self.largest_gap_s,
            "resolution_ns": self.resolution_ns,
            "missing_share": self.missing,
            "malformed_lines": [
                {
                    "source": place.source,
                    "line": place.line,
                    "reason": place.reason,
                    **({"text": place.text} if show_lines else {}),
                }
                for place in self.malformed
            ],
            "assumptions": list(self.assumptions),
            "warnings": list(self.warnings),
            "verdict": self.verdict,
        }
