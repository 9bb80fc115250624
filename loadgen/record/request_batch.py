"""Requests as they come out of a log, in its order: columns, not objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.errors import RecordError
from loadgen.trace.schema import SCHEMA

# What a request may carry besides its arrival: the columns of a trace. `session` is the source's own id, which
# is replaced by a number before anything is kept.
VALUE_COLUMNS = (
    "input_tokens",
    "input_chars",
    "input_bytes",
    "output_tokens",
    "output_chars",
    "output_bytes",
    "duration_ns",
    "ttft_ns",
    "status",
    "model",
    "endpoint",
    "session",
    "prefix_blocks",
    "stream",
)


@dataclass(frozen=True, slots=True)
class RequestBatch:
    """Requests in the order of the log.

    arrival_unix_ns: int64 (num_requests,). columns: some of VALUE_COLUMNS, lists or Arrow arrays of the
    same length, None where a request lacks the value.
    """

    arrival_unix_ns: npt.NDArray[np.int64]
    columns: Mapping[str, Any]

    @property
    def num_rows(self) -> int:
        return int(self.arrival_unix_ns.size)

    @property
    def end_unix_ns(self) -> npt.NDArray[np.int64] | None:
        """When the requests were completed; None where durations are not known."""
        durations = self.columns.get("duration_ns")
        if not isinstance(durations, pa.Array) or durations.null_count:
            return None
        end_ns: npt.NDArray[np.int64] = self.arrival_unix_ns + np.asarray(durations)
        return end_ns

    def only(self, keep: npt.NDArray[np.bool_]) -> RequestBatch:
        """The requests where `keep` is true."""
        mask = pa.array(keep)
        return RequestBatch(
            self.arrival_unix_ns[keep],
            {name: as_arrow(name, values).filter(mask) for name, values in self.columns.items()},
        )

    def without(self, rows: Collection[int]) -> RequestBatch:
        """The same requests save those at `rows`."""
        if not rows:
            return self
        keep = np.ones(self.arrival_unix_ns.size, dtype=bool)
        keep[list(rows)] = False
        return self.only(keep)


def as_arrow(column: str, values: Any) -> pa.Array:
    """Values of one of VALUE_COLUMNS as an array of the trace's type; ids of sessions as strings.

    Raises RecordError if one does not fit.
    """
    column_type = pa.string() if column == "session" else SCHEMA.field(column).type
    try:
        if pa.types.is_dictionary(column_type):
            if not isinstance(values, pa.Array):
                values = pa.array(values, pa.string())
            if not pa.types.is_dictionary(values.type):
                values = values.dictionary_encode()
            return values.cast(column_type)
        return values.cast(column_type) if isinstance(values, pa.Array) else pa.array(values, column_type)
    except (pa.ArrowException, OverflowError) as exc:
        raise RecordError(
            f"column {column}: a value does not fit {column_type} ({str(exc).splitlines()[0]})",
            hint="check the field and its unit",
        ) from exc


class RequestRows:
    """Collects requests one by one; `take` hands over what has gathered as a RequestBatch."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._names = columns
        self._arrivals: list[int] = []
        self._values: list[tuple[Any, ...]] = []

    def add(self, arrival_unix_ns: int, values: tuple[Any, ...]) -> None:
        """One request; `values` in the order of the columns."""
        self._arrivals.append(arrival_unix_ns)
        self._values.append(values)

    def __len__(self) -> int:
        return len(self._arrivals)

    def take(self) -> RequestBatch:
        """What was added since the last call."""
        columns = [list(column) for column in zip(*self._values, strict=True)]
        batch = RequestBatch(
            np.array(self._arrivals, dtype=np.int64), dict(zip(self._names, columns, strict=False))
        )
        self._arrivals, self._values = [], []
        return batch
