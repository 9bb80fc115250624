"""LiteLLM standard logging payloads and spend logs: startTime is the arrival, in epoch seconds or ISO.

Source: docs.litellm.ai, logging_spec. Spend logs write ISO stamps, in UTC also where they carry no zone; an
answer of /spend/logs is an array, which the wrapper `array` takes apart. response_time is the time to first
token for streams, so endTime - response_time is not the arrival. Failures carry 0 tokens, which mean not
known.
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
    keys=("startTime", "endTime", "prompt_tokens", "completion_tokens"),
    time=("startTime",),
    marks="arrival",
    zone="UTC",
    end="endTime",
    first_token="completionStartTime",
    lengths={"input_tokens": ("prompt_tokens",), "output_tokens": ("completion_tokens",)},
    model="model",
    stream="stream",
    session="session_id",
    prompt="messages",
    failed={"status": "failure"},
)


class LitellmFormat:
    """LiteLLM JSON lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._records = JsonRecords(_LAYOUT, settings)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, _LAYOUT.keys)

    def stamp_facts(self) -> StampFacts:
        return self._records.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        yield from self._records.read(batches, findings)
