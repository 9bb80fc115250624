"""Completion: every planned request has exactly one record."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.replay.request_record import SCHEMA, Outcome, Phase

_FROM_SCHEDULE = {
    "trace_row": "trace_row",
    "copy": "copy",
    "window": "window",
    "planned_ns": "planned_ns",
    "input_tokens_planned": "input_tokens",
    "output_tokens_planned": "output_tokens",
}


def complete_records(records: pa.Table, schedule: pa.Table, *, missing_because: Sequence[str]) -> pa.Table:
    """`records` with a not_sent record for each planned request that has none, in order of planned time.

    missing_because: for each row of the schedule, what stands in the error column if its record has to be added.
    """
    is_missing = ~np.isin(_keys(schedule), _keys(records))
    missing = schedule.filter(pa.array(is_missing))
    count = missing.num_rows
    columns = []
    for field in SCHEMA:
        if field.name in _FROM_SCHEDULE:
            columns.append(missing.column(_FROM_SCHEDULE[field.name]).cast(field.type))
        elif field.name == "outcome":
            columns.append(_constant(Outcome.NOT_SENT.value, count, field.type))
        elif field.name == "error":
            columns.append(pa.array(compress(missing_because, is_missing), field.type))
        elif field.name == "phase":
            columns.append(_constant(Phase.RUN.value, count, field.type))
        elif field.name == "worker":
            columns.append(_constant(-1, count, field.type))
        else:
            columns.append(pa.nulls(count, field.type))
    added = pa.Table.from_arrays(columns, schema=SCHEMA)
    whole = pa.concat_tables([records, added]).unify_dictionaries()
    return whole.sort_by([("planned_ns", "ascending"), ("trace_row", "ascending"), ("copy", "ascending")])


def _keys(table: pa.Table) -> npt.NDArray[np.int64]:
    """(trace_row, copy) as one number."""
    rows = np.asarray(table.column("trace_row").to_numpy(), dtype=np.int64)
    return (rows << 16) + np.asarray(table.column("copy").to_numpy(), dtype=np.int64)


def _constant(value: str | int, count: int, kind: pa.DataType) -> pa.Array:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    array = pa.array([value] * count, plain)
    return array.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else array
