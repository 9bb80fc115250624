"""Triton's trace of requests as JSON: ns of a monotonic clock, so only the gaps between arrivals are known.

Source: docs.nvidia.com, Triton user guide, trace. One array of entries (the wrapper `array` makes a line of
each); those of one id may be apart: timestamps, and at the level TENSORS what went in. The arrival is when
the request was received; a wait for it to come (GRPC_WAITREAD_START) is before that. Traces with a parent are
parts of an ensemble. Triton samples: rate=N keeps each N-th request. Lengths are known only where the level
TENSORS traced a tensor of token ids. The text log tells no requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from loadgen.record.fields import MAX_COUNT, name_or_none
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.json_lines import has_keys
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings

# The first of these that a request has is its arrival. Older versions write them in small letters with spaces.
_ARRIVALS = ("HTTP_RECV_START", "GRPC_WAITREAD_END", "REQUEST_START", "REQUEST_HANDLER_START", "QUEUE_START")
_ENDS = ("HTTP_SEND_END", "GRPC_SEND_END", "REQUEST_END", "REQUEST_HANDLER_END")
_TOKEN_IDS = ("input_ids", "input_id")


@dataclass(slots=True)
class _Request:
    """What the entries of one id told so far."""

    moments_ns: dict[str, int]
    model: str | None = None
    input_tokens: int | None = None
    is_part: bool = False

    def first_ns(self, names: Sequence[str]) -> int | None:
        return next((self.moments_ns[name] for name in names if name in self.moments_ns), None)


class TritonFormat:
    """Triton trace entries, one a line."""

    needs = "a request is an id with timestamps (trace level TIMESTAMPS)"

    def __init__(self, settings: RecordSettings) -> None:
        pass

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, ("id", "timestamps")) or has_keys(head, ("id", "model_name", "model_version"))

    def stamp_facts(self) -> StampFacts:
        return StampFacts(
            "arrival", "when the request was received, on a monotonic clock", 1, is_relative=True
        )

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.warn("the clock is monotonic: gaps are known, the time of day is not")
        findings.warn(
            "Triton traces each N-th request (rate=N, 1000 by default): the true rate is N times as high"
        )
        requests: dict[int, _Request] = {}
        for batch in batches:
            for index, line in enumerate(batch.lines()):
                try:
                    entry = orjson.loads(line)
                    request = requests.setdefault(int(entry["id"]), _Request({}))
                    _add(request, entry)
                except (ValueError, TypeError, LookupError, AttributeError):
                    findings.add_malformed(batch.source, batch.number_of(index), "no entry of a trace", line)
        whole = [
            request
            for request in requests.values()
            if not request.is_part and request.first_ns(_ARRIVALS) is not None
        ]
        findings.num_other += len(requests) - len(whole)
        arrivals_ns = np.array([request.first_ns(_ARRIVALS) for request in whole], dtype=np.int64)
        yield RequestBatch(
            arrivals_ns,
            {
                "duration_ns": pa.array(
                    [
                        None if (end_ns := request.first_ns(_ENDS)) is None else max(0, end_ns - arrival_ns)
                        for request, arrival_ns in zip(whole, arrivals_ns.tolist(), strict=True)
                    ],
                    pa.int64(),
                ),
                "input_tokens": pa.array([request.input_tokens for request in whole], pa.int32()),
                "model": [request.model for request in whole],
            },
        )


def _add(request: _Request, entry: Mapping[str, Any]) -> None:
    """Add what one entry tells. Raises ValueError, TypeError, LookupError or AttributeError if it is none."""
    request.model = name_or_none(entry.get("model_name")) or request.model
    request.is_part = request.is_part or bool(entry.get("parent_id"))
    for stamp in entry.get("timestamps", ()):
        moment_ns = int(stamp["ns"])
        if not 0 <= moment_ns < 2**62:
            raise ValueError("a moment out of range")
        request.moments_ns[stamp["name"].upper().replace(" ", "_")] = moment_ns
    if entry.get("activity") == "TENSOR_QUEUE_INPUT" and entry["tensor"]["name"].lower() in _TOKEN_IDS:
        sizes: list[int] = [int(size) for size in str(entry["tensor"]["shape"]).split(",")]
        length = prod(sizes)
        request.input_tokens = length if 0 <= length <= MAX_COUNT else None
