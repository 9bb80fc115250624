"""Trace: when requests arrived and how long their texts were, without the texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.content_hash import content_hash
from loadgen.errors import TraceError
from loadgen.trace.schema import INPUT_COLUMNS, LENGTH_COLUMNS, SCHEMA


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file that a trace was made from: its base name, size and hash, never its folder."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class TraceMetadata:
    """What a trace says of itself: where it came from and how far to trust it.

    origin: unix ns of arrival_ns = 0, or None when only gaps are known ("relative").
    stamp_marks: the moment the source's stamp marked: "arrival" or "completion".
    arrival_from: how the arrival was got from it, in words.
    resolution_ns: the finest step of the source's stamps, or None when unknown.
    zone: the zone assumed for stamps that carry none, or None when each stamp had its own.
    counts: lines, requests, other, malformed, duplicates, out_of_order (those that apply).
    prefix_block_tokens: tokens a prefix block stands for, or None without prefix blocks.
    """

    origin_unix_ns: int | None
    stamp_marks: str
    arrival_from: str
    resolution_ns: int | None = None
    zone: str | None = None
    sources: tuple[SourceFile, ...] = ()
    recorder: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    prefix_block_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Requests in order of arrival, as columns (see trace.schema), with what is known of their origin.

    Lengths may all be unknown: arrivals alone are a trace, though none that can be replayed.
    Raises TraceError if a column is missing or of another type, if arrivals descend or are negative, or if a
    length is negative.
    """

    table: pa.Table
    metadata: TraceMetadata

    def __post_init__(self) -> None:
        if not self.table.schema.equals(SCHEMA):
            raise TraceError(f"columns do not match trace format: {_schema_difference(self.table.schema)}")
        if self.num_rows == 0:
            raise no_rows()
        check_rows(self.table)

    @property
    def num_rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def has_input_lengths(self) -> bool:
        """Whether the length of any request is known, in any unit."""
        return any(self.table.column(column).null_count < self.num_rows for column in INPUT_COLUMNS)

    @property
    def arrival_ns(self) -> npt.NDArray[np.int64]:
        """int64 (num_rows,), ascending, ns since the origin."""
        return np.asarray(self.table.column("arrival_ns").to_numpy(), dtype=np.int64)

    @property
    def span_s(self) -> float:
        """Seconds from the first arrival to the last."""
        arrivals = self.arrival_ns
        return float(arrivals[-1] - arrivals[0]) / 1e9

    @property
    def trace_id(self) -> str:
        """Hash of the columns' values: equal for equal requests, whatever the file or its compression."""
        return content_hash(self.table)


def no_rows() -> TraceError:
    """What is raised for a trace without a request."""
    return TraceError("no requests: 0 rows", hint="check the source and the filters that were applied")


def check_rows(table: pa.Table, *, first_row: int = 0, not_before_ns: int = 0) -> None:
    """Raise TraceError if arrivals descend, are missing or before `not_before_ns`, or a value is negative.

    first_row: number of the first row, for messages.
    """
    if table.column("arrival_ns").null_count:
        raise TraceError("arrival_ns holds nulls")
    arrivals = np.asarray(table.column("arrival_ns").to_numpy(), dtype=np.int64)
    if arrivals.size and arrivals[0] < 0:
        raise TraceError(f"row {first_row}: arrival_ns is negative ({arrivals[0]})")
    if arrivals.size and arrivals[0] < not_before_ns:
        raise TraceError(f"row {first_row}: arrival_ns goes back ({not_before_ns} -> {arrivals[0]})")
    steps = np.diff(arrivals)
    if steps.size and steps.min() < 0:
        row = int(np.argmax(steps < 0)) + 1
        raise TraceError(
            f"row {first_row + row}: arrival_ns goes back ({arrivals[row - 1]} -> {arrivals[row]})"
        )
    for column in (*LENGTH_COLUMNS, "duration_ns", "ttft_ns"):
        lowest = pc.min(table.column(column)).as_py()
        if lowest is not None and lowest < 0:
            row = pc.index(pc.less(table.column(column), 0), True).as_py()
            raise TraceError(
                f"row {first_row + row}: {column} is negative ({table.column(column)[row].as_py()})"
            )


def _schema_difference(schema: pa.Schema) -> str:
    for expected in SCHEMA:
        index = schema.get_field_index(expected.name)
        if index < 0:
            return f"column {expected.name} is missing"
        if not schema.field(index).equals(expected):
            found = schema.field(index)
            return f"column {expected.name} is {found}, expected {expected}"
    extra = [name for name in schema.names if name not in SCHEMA.names]
    return f"unknown columns {extra}" if extra else "columns stand in another order"
