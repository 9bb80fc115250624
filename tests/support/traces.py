"""Small traces for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from loadgen.trace.parquet import write_trace
from loadgen.trace.schema import SCHEMA
from loadgen.trace.trace import Trace, TraceMetadata


def trace_of(arrivals_s: Sequence[float], **columns: Sequence[Any]) -> Trace:
    """A trace with the given arrivals; 8 tokens in and 4 out unless other columns are given."""
    count = len(arrivals_s)
    given: dict[str, Any] = {
        "arrival_ns": np.round(np.asarray(arrivals_s, dtype=np.float64) * 1e9).astype(np.int64),
        "input_tokens": [8] * count,
        "output_tokens": [4] * count,
        **columns,
    }
    arrays = []
    for field in SCHEMA:
        values = given.get(field.name, [None] * count)
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        array = pa.array(values, kind)
        arrays.append(array.dictionary_encode().cast(field.type) if kind != field.type else array)
    metadata = TraceMetadata(origin_unix_ns=None, stamp_marks="arrival", arrival_from="made for a test")
    return Trace(pa.Table.from_arrays(arrays, schema=SCHEMA), metadata)


def written(folder: Path, arrivals_s: Sequence[float], **columns: Sequence[Any]) -> Path:
    """The path of such a trace, written to `folder`."""
    path = folder / "trace.parquet"
    write_trace(trace_of(arrivals_s, **columns), path)
    return path
