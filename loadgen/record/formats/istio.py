"""Envoy and Istio access logs as JSON: start_time is the arrival, in ms, UTC.

duration is in ms from start to last byte; bytes are those of the bodies. Values are numbers or strings by version.
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
    keys=("start_time", "bytes_received", "bytes_sent", "response_code"),
    time=("start_time",),
    marks="arrival",
    duration="duration",
    duration_unit="ms",
    lengths={"input_bytes": ("bytes_received",), "output_bytes": ("bytes_sent",)},
    status="response_code",
    method="method",
    target="path",
)


class IstioFormat:
    """Envoy and Istio JSON lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._records = JsonRecords(_LAYOUT, settings)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, _LAYOUT.keys)

    def stamp_facts(self) -> StampFacts:
        return self._records.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        yield from self._records.read(batches, findings)
