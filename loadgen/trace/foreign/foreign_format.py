"""The seam for public trace formats: recognise one, and read its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class ForeignRequests:
    """What a foreign trace holds, in its own order.

    moments_ns: int64 (num_requests,), unix ns if `has_epoch`, else ns of the source's own clock.
    columns: columns of the trace schema, each of the same length. unit: of the source's stamps.
    notes: assumptions that a reader of the trace must know.
    """

    moments_ns: npt.NDArray[np.int64]
    columns: Mapping[str, Any]
    has_epoch: bool
    arrival_from: str
    unit: str | None = None
    zone: str | None = None
    prefix_block_tokens: int | None = None
    notes: tuple[str, ...] = field(default=())


class ForeignFormat(Protocol):
    """One public trace format."""

    @property
    def name(self) -> str:
        """What `--format` calls it."""

    def looks_like(self, head: str) -> bool:
        """Whether text from the start of a file is of this format."""

    def read(self, text: str, *, unit: str | None) -> ForeignRequests:
        """The requests in `text`; `unit` overrides the format's own unit of bare numbers.

        Raises TraceError with the line of the first value that is none.
        """
