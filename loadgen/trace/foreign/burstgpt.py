"""BurstGPT traces: Timestamp (s from 00:00 of the first day), Model, Request tokens, Response tokens.

Source: github.com/HPMLL/BurstGPT. Version 3 adds Session ID and Elapsed time. Response tokens 0 marks a
failed request: it arrived, and its output length is not known.
"""

from __future__ import annotations

import numpy as np

from loadgen.trace.foreign.counts import count
from loadgen.trace.foreign.csv_table import CsvTable, header_of
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.moments import UNIT_NS, number_ns
from loadgen.trace.sessions import dense_sessions


class BurstGptFormat:
    """BurstGPT CSV."""

    name = "burstgpt"

    def looks_like(self, head: str) -> bool:
        return {"Timestamp", "Request tokens", "Response tokens"} <= set(header_of(head))

    def read(self, text: str, *, unit: str | None) -> ForeignRequests:
        table = CsvTable(text)
        unit_ns = UNIT_NS[unit or "s"]
        outputs = table.column("Response tokens", count)
        columns = {
            "input_tokens": table.column("Request tokens", count),
            "output_tokens": [tokens or None for tokens in outputs],
            "model": table.column("Model", str) if "Model" in table.header else None,
        }
        notes: tuple[str, ...] = ()
        failed = sum(tokens == 0 for tokens in outputs)
        if failed:
            notes += (f"{failed} requests failed (0 response tokens): kept, output length unknown",)
        moments_ns = np.array(
            table.column("Timestamp", lambda cell: number_ns(cell, unit_ns)), dtype=np.int64
        )
        if "Session ID" in table.header:
            columns["session"] = dense_sessions(table.column("Session ID", str), moments_ns)
        return ForeignRequests(
            moments_ns=moments_ns,
            columns=columns,
            has_epoch=False,
            arrival_from="Timestamp, the moment of submission, counted from 00:00 of the first day",
            unit=unit or "s",
            notes=notes,
        )
