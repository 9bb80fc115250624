"""LLMServingSim measured requests: input_toks, output_toks, arrival_time (epoch s) and monotonic stage times.

Source: github.com/casys-kaist/LLMServingSim. arrival_time is the wall clock; queued_ts to last_token_ts
are of a monotonic clock. The two are never subtracted: duration and time to first token come from
the monotonic ones alone, counted from queued_ts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loadgen.errors import TraceError
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.foreign.json_lines import count_of, first_keys, json_objects, moment_text
from loadgen.trace.moments import UNIT_NS, number_ns


class LlmServingSimFormat:
    """LLMServingSim JSONL."""

    name = "llmservingsim"

    def looks_like(self, head: str) -> bool:
        return {"input_toks", "output_toks", "arrival_time"} <= first_keys(head)

    def read(self, text: str, *, unit: str | None) -> ForeignRequests:
        unit_ns = UNIT_NS[unit or "s"]
        moments_ns: list[int] = []
        columns: dict[str, list[int | None]] = {
            name: [] for name in ("input_tokens", "output_tokens", "duration_ns", "ttft_ns")
        }
        for line, document in json_objects(text):
            try:
                moments_ns.append(number_ns(moment_text(document, "arrival_time", line), unit_ns))
                columns["duration_ns"].append(_between(document, "queued_ts", "last_token_ts", line))
                columns["ttft_ns"].append(_between(document, "queued_ts", "first_token_ts", line))
            except ValueError as exc:
                raise TraceError(f"line {line}: {exc}") from exc
            columns["input_tokens"].append(count_of(document, "input_toks", line))
            columns["output_tokens"].append(count_of(document, "output_toks", line))
        return ForeignRequests(
            moments_ns=np.array(moments_ns, dtype=np.int64),
            columns=columns,
            has_epoch=True,
            arrival_from="arrival_time, wall clock",
            unit=unit or "s",
            notes=("duration and time to first token are counted from queued_ts, on its monotonic clock",),
        )


def _between(document: dict[str, Any], start: str, end: str, line: int) -> int | None:
    """Nanoseconds between two stamps of the monotonic clock, None if either is missing."""
    if document.get(start) is None or document.get(end) is None:
        return None
    second = UNIT_NS["s"]
    return number_ns(moment_text(document, end, line), second) - number_ns(
        moment_text(document, start, line), second
    )
