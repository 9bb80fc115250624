"""Requests as they come out of a log, in its order: columns, not objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

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
