"""nginx access logs as JSON: msec and request_time, so arrival = msec - request_time.

$msec is taken at completion and is exact to 1 ms; it is a string or a number.
The names are those of nginx's variables.
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
    keys=("msec", "request_time"),
    time=("msec",),
    time_unit="s",
    marks="completion",
    duration="request_time",
    lengths={"input_bytes": ("request_length",), "output_bytes": ("bytes_sent", "body_bytes_sent")},
    status="status",
    request="request",
    method="request_method",
    target="request_uri",
)


class NginxJsonFormat:
    """nginx JSON lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._records = JsonRecords(_LAYOUT, settings)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, _LAYOUT.keys)

    def stamp_facts(self) -> StampFacts:
        return self._records.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        yield from self._records.read(batches, findings)
