"""Requests in any order -> the columns of a Trace: sorted by arrival, stable, counted from the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.errors import TraceError
from loadgen.trace.schema import SCHEMA
from loadgen.trace.trace import Trace, TraceMetadata


def assemble_trace(
    moments_ns: npt.NDArray[np.int64], columns: Mapping[str, Any], metadata: TraceMetadata
) -> Trace:
    """A Trace of requests that came at `moments_ns` (unix ns, or ns of a clock without epoch).

    Rows are sorted by arrival; ties keep their order. The first arrival becomes 0; if
    `metadata.origin_unix_ns` is not None it is set to the first moment. `columns` maps column names of
    the schema to arrays or lists of the same length; those left out are null. The number of rows that
    came before an earlier row's arrival is added to the counts as `out_of_order`.
    Raises TraceError for no rows, a length that fits no column, or whatever breaks the trace format.
    """
    if moments_ns.size == 0:
        raise TraceError("no requests: 0 rows", hint="check the source and the filters that were applied")
    order = np.argsort(moments_ns, kind="stable")
    origin_ns = int(moments_ns[order[0]])
    arrival_ns = moments_ns[order] - origin_ns
    arrays = [pa.array(arrival_ns)]
    for field in SCHEMA:
        if field.name == "arrival_ns":
            continue
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(len(order), field.type))
            continue
        arrays.append(_column(field, values).take(pa.array(order)))
    counts = {**metadata.counts, "out_of_order": count_out_of_order(moments_ns)}
    origin = None if metadata.origin_unix_ns is None else origin_ns
    return Trace(
        pa.Table.from_arrays(arrays, schema=SCHEMA), replace(metadata, counts=counts, origin_unix_ns=origin)
    )


def count_out_of_order(moments_ns: npt.NDArray[np.int64]) -> int:
    """Rows that stand behind a row of a later arrival: those a sort moves forward."""
    if moments_ns.size == 0:
        return 0
    return int(np.count_nonzero(moments_ns < np.maximum.accumulate(moments_ns)))


def finest_step_ns(moments_ns: npt.NDArray[np.int64]) -> int | None:
    """The largest power of ten, 1 ns to 1 s, that divides every moment; None without a moment above 0.

    What the stamps show, which is the resolution of their source once there are a few of them.
    """
    positive = moments_ns[moments_ns > 0]
    if positive.size == 0:
        return None
    divisor = int(np.gcd.reduce(positive))
    steps: list[int] = [10**power for power in range(9, -1, -1)]
    return next(step for step in steps if divisor % step == 0)


def _column(field: pa.Field, values: Any) -> pa.Array:
    try:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        if isinstance(values, pa.Array):
            return values if values.type == field.type else values.cast(field.type)
        if pa.types.is_dictionary(field.type):
            return _names(values).cast(field.type)
        return pa.array(values, field.type)
    except (pa.ArrowException, OverflowError) as exc:
        raise TraceError(
            f"column {field.name}: a value does not fit {field.type} ({str(exc).splitlines()[0]})",
            hint="check the field and its unit",
        ) from exc


def _names(values: Sequence[str | None]) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode()
