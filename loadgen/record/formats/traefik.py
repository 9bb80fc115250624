"""Traefik access logs as JSON: StartUTC is the arrival, to 1 ns.

Source: traefik/traefik pkg/middlewares/accesslog.
Duration is in ns; time is the moment of logging, in whole seconds, and is not used.
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
    keys=("StartUTC", "Duration", "DownstreamStatus"),
    time=("StartUTC",),
    marks="arrival",
    duration="Duration",
    duration_unit="ns",
    lengths={"input_bytes": ("RequestContentSize",), "output_bytes": ("DownstreamContentSize",)},
    status="DownstreamStatus",
    method="RequestMethod",
    target="RequestPath",
)


class TraefikFormat:
    """Traefik JSON lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._records = JsonRecords(_LAYOUT, settings)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, _LAYOUT.keys)

    def stamp_facts(self) -> StampFacts:
        return self._records.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        yield from self._records.read(batches, findings)
