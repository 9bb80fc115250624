"""Langfuse observations (blob export): start_time is the arrival, UTC without a mark.

Source: langfuse.com, blob storage export fields. Only observations of type GENERATION are model calls.
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
    keys=("type", "start_time"),
    time=("start_time", "startTime"),
    marks="arrival",
    zone="UTC",
    end="end_time",
    first_token="completion_start_time",
    lengths={"input_tokens": ("usage_details.input",), "output_tokens": ("usage_details.output",)},
    model="provided_model_name",
    only={"type": "GENERATION"},
)


class LangfuseFormat:
    """Langfuse JSON lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._records = JsonRecords(_LAYOUT, settings)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, _LAYOUT.keys)

    def stamp_facts(self) -> StampFacts:
        return self._records.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        yield from self._records.read(batches, findings)
