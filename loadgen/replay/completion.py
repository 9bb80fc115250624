"""Completion: every planned request has exactly one record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Loss:
    """A worker that was gone before it was done, and why.

    ended_ns: on the run's clock, from when on it has sent nothing; None where it may have gone on.
    """

    reason: str
    ended_ns: int | None


@dataclass(frozen=True, slots=True)
class Fate:
    """What a planned request without a record counts as. because: stands in its error column."""

    outcome: Outcome
    because: str


def fates_of(
    planned_ns: npt.NDArray[np.int64], owners: npt.NDArray[np.int64], lost: Mapping[int, Loss]
) -> list[Fate]:
    """For each planned request, what it is if it has no record. owners: the worker that was to send it.

    What a lost worker did not tell of may have been sent, if it was due while that could still send.
    """
    ended = Fate(Outcome.NOT_SENT, "the run ended before")
    found = [ended] * len(planned_ns)
    for worker, loss in lost.items():
        was_lost = f"worker {worker} was lost ({loss.reason})"
        unknown = Fate(Outcome.UNRECORDED, f"{was_lost}; whether this was sent is not known")
        unsent = Fate(Outcome.NOT_SENT, f"{was_lost} before this was due")
        for row in np.flatnonzero(owners == worker).tolist():
            is_later = loss.ended_ns is not None and planned_ns[row] > loss.ended_ns
            found[row] = unsent if is_later else unknown
    return found


def complete_records(records: pa.Table, schedule: pa.Table, *, fates: Sequence[Fate]) -> pa.Table:
    """`records` with one for each planned request that has none, in order of planned time.

    fates: for each row of the schedule, what its record says if it has to be added.
    """
    is_missing = ~np.isin(_keys(schedule), _keys(records))
    missing = schedule.filter(pa.array(is_missing))
    added_fates = list(compress(fates, is_missing))
    count = missing.num_rows
    columns = []
    for field in SCHEMA:
        if field.name in _FROM_SCHEDULE:
            columns.append(missing.column(_FROM_SCHEDULE[field.name]).cast(field.type))
        elif field.name == "outcome":
            columns.append(_names([fate.outcome.value for fate in added_fates], field.type))
        elif field.name == "error":
            columns.append(pa.array([fate.because for fate in added_fates], field.type))
        elif field.name == "phase":
            columns.append(_names([Phase.RUN.value] * count, field.type))
        elif field.name == "worker":
            columns.append(pa.array([-1] * count, field.type))
        else:
            columns.append(pa.nulls(count, field.type))
    added = pa.Table.from_arrays(columns, schema=SCHEMA)
    whole = pa.concat_tables([records, added]).unify_dictionaries()
    return whole.sort_by([("planned_ns", "ascending"), ("trace_row", "ascending"), ("copy", "ascending")])


def _keys(table: pa.Table) -> npt.NDArray[np.int64]:
    """(trace_row, copy) as one number."""
    rows = np.asarray(table.column("trace_row").to_numpy(), dtype=np.int64)
    return (rows << 16) + np.asarray(table.column("copy").to_numpy(), dtype=np.int64)


def _names(values: Sequence[str], kind: pa.DictionaryType) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode().cast(kind)
