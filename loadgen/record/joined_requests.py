"""Requests of which one line tells the arrival and a later one the rest, joined by their ids."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from loadgen.record.request_batch import RequestBatch

# How long a request is waited for after its arrival, by the log's own stamps: where answers are logged, and where
# none has been seen yet.
_PATIENCE_NS = 3600 * 10**9
_PATIENCE_WITHOUT_ANSWERS_NS = 60 * 10**9


@dataclass(slots=True)
class JoinedRequest:
    """One request, as far as its lines were seen."""

    arrival_ns: int
    stream: bool | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    duration_ns: int | None = None
    prefix_blocks: list[int] | None = None
    is_finished: bool = False


class JoinedRequests:
    """Holds requests until they are finished, and gives them in the order in which they arrived."""

    def __init__(self) -> None:
        self._by_id: dict[bytes, JoinedRequest] = {}
        self._waiting: deque[tuple[bytes, JoinedRequest]] = deque()
        self._latest_ns = -(2**63)
        self._any_finished = False

    def begin(self, request_id: bytes, arrival_ns: int) -> JoinedRequest:
        """A request that arrives. One of the same id before it is another one, of which nothing more is told."""
        request = JoinedRequest(arrival_ns)
        before = self._by_id.get(request_id)
        if before is not None:
            before.is_finished = True
        self._by_id[request_id] = request
        self._waiting.append((request_id, request))
        self._latest_ns = max(self._latest_ns, arrival_ns)
        return request

    def find(self, request_id: bytes) -> JoinedRequest | None:
        """The request of this id, unless it is not in the log or was given away."""
        return self._by_id.get(request_id)

    def finish(self, request: JoinedRequest) -> None:
        """All is told of this request."""
        request.is_finished = True
        self._any_finished = True

    def take(self, *, is_end: bool = False) -> RequestBatch:
        """The requests before the first that may still be finished; all of them at the end of the log."""
        patience_ns = _PATIENCE_NS if self._any_finished else _PATIENCE_WITHOUT_ANSWERS_NS
        taken: list[JoinedRequest] = []
        while self._waiting:
            request_id, request = self._waiting[0]
            if not (is_end or request.is_finished or request.arrival_ns < self._latest_ns - patience_ns):
                break
            self._waiting.popleft()
            if self._by_id.get(request_id) is request:
                del self._by_id[request_id]
            taken.append(request)
        return _batch(taken)


def _batch(requests: list[JoinedRequest]) -> RequestBatch:
    columns: dict[str, Any] = {
        column: [getattr(request, column) for request in requests]
        for column in ("input_tokens", "output_tokens", "duration_ns", "stream", "prefix_blocks")
    }
    for column in ("duration_ns", "prefix_blocks"):
        if all(value is None for value in columns[column]):
            del columns[column]
    return RequestBatch(np.array([request.arrival_ns for request in requests], dtype=np.int64), columns)
