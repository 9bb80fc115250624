"""Vidur traces: arrived_at (s since the first request), num_prefill_tokens, num_decode_tokens.

Source: github.com/microsoft/vidur, data/processed_traces. Files with lengths only have no arrivals.
"""

from __future__ import annotations

import numpy as np

from loadgen.errors import TraceError
from loadgen.trace.foreign.counts import count
from loadgen.trace.foreign.csv_table import CsvTable, header_of
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.moments import UNIT_NS, number_ns


class VidurFormat:
    """Vidur CSV."""

    name = "vidur"

    def looks_like(self, head: str) -> bool:
        return {"num_prefill_tokens", "num_decode_tokens"} <= set(header_of(head))

    def read(self, text: str, *, unit: str | None) -> ForeignRequests:
        table = CsvTable(text)
        if "arrived_at" not in table.header:
            raise TraceError(
                "no column 'arrived_at': a file of lengths has no arrivals",
                hint="take the lengths for a synthetic trace, or the file of the set that has arrived_at",
            )
        unit_ns = UNIT_NS[unit or "s"]
        return ForeignRequests(
            moments_ns=np.array(
                table.column("arrived_at", lambda cell: number_ns(cell, unit_ns)), dtype=np.int64
            ),
            columns={
                "input_tokens": table.column("num_prefill_tokens", count),
                "output_tokens": table.column("num_decode_tokens", count),
            },
            has_epoch=False,
            arrival_from="arrived_at, counted from the first request",
            unit=unit or "s",
        )
