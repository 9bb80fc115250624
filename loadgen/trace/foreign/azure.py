"""Azure LLM inference traces 2023 to 2025: TIMESTAMP,ContextTokens,GeneratedTokens.

Source: github.com/Azure/AzurePublicDataset. TIMESTAMP is the moment of the invocation with seven fraction
digits and no zone; taken as UTC. Lines end in CR LF, the last without a line end. The multimodal
trace has NumImages after TIMESTAMP, which a trace has no column for.
"""

from __future__ import annotations

import numpy as np

from loadgen.trace.foreign.counts import count
from loadgen.trace.foreign.csv_table import CsvTable, header_of
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.moments import calendar_ns


class AzureFormat:
    """Azure CSV."""

    name = "azure"

    def looks_like(self, head: str) -> bool:
        return {"TIMESTAMP", "ContextTokens", "GeneratedTokens"} <= set(header_of(head))

    def read(self, text: str, *, unit: str | None) -> ForeignRequests:
        table = CsvTable(text)
        notes: tuple[str, ...] = ("TIMESTAMP carries no zone and is taken as UTC",)
        if "NumImages" in table.header:
            notes += ("NumImages is left out: a trace holds text lengths only",)
        return ForeignRequests(
            moments_ns=np.array(table.column("TIMESTAMP", _unix_ns), dtype=np.int64),
            columns={
                "input_tokens": table.column("ContextTokens", count),
                "output_tokens": table.column("GeneratedTokens", count),
            },
            has_epoch=True,
            arrival_from="TIMESTAMP, the moment of the invocation",
            zone="UTC",
            notes=notes,
        )


def _unix_ns(cell: str) -> int:
    ns, offset_ns = calendar_ns(cell)
    return ns - (offset_ns or 0)
