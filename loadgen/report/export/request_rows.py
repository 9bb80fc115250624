"""One row a planned request, flat: what was asked for, how it ended, its times in seconds and its server stages."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from loadgen.replay.request_record import SERVER_STAGES
from loadgen.report.figures import Floats
from loadgen.report.recorded_run import RecordedRun

_AS_THEY_ARE = (
    "trace_row", "copy", "window", "outcome", "status_code", "finish_reason", "input_tokens_planned",
    "output_tokens_planned", "prompt_tokens", "output_tokens", "tokens_source", "num_chunks", "num_coalesced",
    "num_retries", "worker",
)  # fmt: skip
_MOMENTS = ("planned", "dispatched", "sent", "headers", "first_byte", "first_token", "last_token", "end")
# What a spreadsheet would take for a formula.
_FORMULA = r"^([=+\-@\t\r])"


def request_rows(run: RecordedRun) -> pa.Table:
    """Moments are seconds from the run's start; null where it did not happen. Sums of them are not made here."""
    records, seen = run.seen.records, run.seen
    columns: dict[str, pa.Array | pa.ChunkedArray] = {}
    for name in _AS_THEY_ARE:
        column = records.column(name)
        columns[name] = column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
    columns |= {f"{moment}_s": _nullable(seen.seconds(f"{moment}_ns")) for moment in _MOMENTS}
    columns |= {f"{name}_s": _nullable(values) for name, values in seen.per_request.items()}
    columns |= {f"server_{stage}_s": _nullable(seen.seconds(f"server_{stage}_us")) for stage in SERVER_STAGES}
    columns["server_mean_batch"] = records.column("server_mean_batch")
    columns["error"] = records.column("error")
    return pa.table(columns)


def as_csv(rows: pa.Table) -> bytes:
    """RFC 4180 with a header; an empty cell is no value. Text that a spreadsheet would run is quoted off."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            safe = pc.replace_substring_regex(rows.column(place), _FORMULA, r"'\1")
            rows = rows.set_column(place, field.name, safe)
    out = io.BytesIO()
    csv.write_csv(rows, out)
    return out.getvalue()


def _nullable(values: Floats) -> pa.Array:
    # Stored to the nanosecond: digits beyond are of the arithmetic.
    return pa.array(np.round(values, 9), mask=np.isnan(values))
