"""splitwise-sim traces: arrival_timestamp (s), prompt_size, token_size.

Source: github.com/Mutinifni/splitwise-sim, traces/.
"""

from __future__ import annotations

import numpy as np

from loadgen.trace.foreign.counts import count
from loadgen.trace.foreign.csv_table import CsvTable, header_of
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.moments import UNIT_NS, number_ns


class SplitwiseSimFormat:
    """splitwise-sim CSV."""

    name = "splitwise-sim"

    def looks_like(self, head: str) -> bool:
        return {"arrival_timestamp", "prompt_size", "token_size"} <= set(header_of(head))

    def read(self, text: str, *, unit: str | None) -> ForeignRequests:
        table = CsvTable(text)
        unit_ns = UNIT_NS[unit or "s"]
        return ForeignRequests(
            moments_ns=np.array(
                table.column("arrival_timestamp", lambda cell: number_ns(cell, unit_ns)), dtype=np.int64
            ),
            columns={
                "input_tokens": table.column("prompt_size", count),
                "output_tokens": table.column("token_size", count),
            },
            has_epoch=False,
            arrival_from="arrival_timestamp, counted from the start of the trace",
            unit=unit or "s",
        )
