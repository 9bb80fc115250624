"""Langfuse observations: the start is the arrival, start_time of blob exports or startTime of the API.

Blob exports write UTC without a mark, the API with Z. Usage is an object, or an object as text.
Source: langfuse.com, blob storage export fields and API reference. Only observations of type GENERATION are
model calls. An answer of the API is a document, which the wrapper `array` takes apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import orjson

from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.json_lines import JsonLayout, JsonLinesFormat, has_keys
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings

# Within a text the quotes around the name would be escaped, so this is found as a field alone.
_USAGE_AS_TEXT = re.compile(rb'("(?:usage_details|usageDetails|usage)"\s*:\s*)("\{(?:[^"\\]|\\.)*\}")')


class _Export(JsonLinesFormat):
    layout = JsonLayout(
        keys=("type", "start_time"),
        time=("start_time",),
        marks="arrival",
        zone="UTC",
        end="end_time",
        first_token="completion_start_time",
        lengths={"input_tokens": ("usage_details.input",), "output_tokens": ("usage_details.output",)},
        model="provided_model_name",
        session="session_id",
        prompt="input",
        only={"type": "GENERATION"},
    )


class _Api(JsonLinesFormat):
    layout = JsonLayout(
        keys=("type", "startTime"),
        time=("startTime",),
        marks="arrival",
        zone="UTC",
        end="endTime",
        first_token="completionStartTime",
        lengths={
            "input_tokens": ("usageDetails.input", "usage.input", "promptTokens"),
            "output_tokens": ("usageDetails.output", "usage.output", "completionTokens"),
        },
        model="model",
        session="sessionId",
        prompt="input",
        only={"type": "GENERATION"},
    )


class LangfuseFormat:
    """Langfuse JSON lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._settings = settings
        self._lines: JsonLinesFormat = _Export(settings)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        marks = (
            (*_Export.layout.keys, "trace_id"),
            (*_Export.layout.keys, "usage_details"),
            (*_Api.layout.keys, "traceId"),
        )
        return any(has_keys(head, keys) for keys in marks)

    @property
    def needs(self) -> str | None:
        """What marks a request."""
        return self._lines.needs

    def stamp_facts(self) -> StampFacts:
        return self._lines.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        rest = map(_with_usage, batches)
        first = next(rest, None)
        if first is None:
            return
        if has_keys(first.lines(), _Api.layout.keys):
            self._lines = _Api(self._settings)
        yield from self._lines.read(chain([first], rest), findings)


def _with_usage(batch: LineBatch) -> LineBatch:
    """The batch with usage that was written as text as the object it is."""
    if b'":"{' not in batch.data and b'": "{' not in batch.data:
        return batch
    return replace(batch, data=_USAGE_AS_TEXT.sub(_usage, batch.data))


def _usage(found: re.Match[bytes]) -> bytes:
    try:
        text = orjson.loads(found[2])
        return found[1] + orjson.dumps(orjson.loads(text)) if isinstance(text, str) else found[0]
    except orjson.JSONDecodeError:
        return found[0]
