"""Caddy access logs: ts is the completion, so arrival = ts - duration.

ts is in epoch seconds as a float by default, or RFC 3339 by setting; duration is in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.json_records import JsonLayout, JsonRecords, has_keys
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings

_LAYOUT = JsonLayout(
    keys=("ts", "request", "duration", "size", "status"),
    time=("ts",),
    marks="completion",
    duration="duration",
    lengths={"input_bytes": ("bytes_read",), "output_bytes": ("size",)},
    status="status",
    method="request.method",
    target="request.uri",
)


class CaddyFormat:
    """Caddy JSON lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._records = JsonRecords(_LAYOUT, settings)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, _LAYOUT.keys)

    def stamp_facts(self) -> StampFacts:
        return self._records.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        yield from self._records.read(batches, findings)
