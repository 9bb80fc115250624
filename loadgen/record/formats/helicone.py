"""Helicone exports: request_created_at is the arrival at the gateway.

Newest first; tokens are null on failure.
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
    keys=("request_created_at", "prompt_tokens", "completion_tokens"),
    time=("request_created_at",),
    marks="arrival",
    end="response_created_at",
    lengths={"input_tokens": ("prompt_tokens",), "output_tokens": ("completion_tokens",)},
    status="response_status",
    model="request_model",
)


class HeliconeFormat:
    """Helicone JSON lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._records = JsonRecords(_LAYOUT, settings)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, _LAYOUT.keys)

    def stamp_facts(self) -> StampFacts:
        return self._records.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        yield from self._records.read(batches, findings)
