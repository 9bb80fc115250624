"""Request and response of OpenAI's API in one line, with the moment beside them.

    {"ts": ..., "latency_ms": ..., "request": {...}, "response": {...}}

There is no standard for what stands around the pair, so the moment's field is `ts` or `timestamp` unless
--time names another, and marks the arrival unless --stamp says completion. `created` in a response is the
server's, in whole seconds, near the first token: it is not taken for the arrival. Lengths are characters of
the texts, and tokens where `usage` tells them.

Lines of the batch API, sums of the usage API and responses alone hold no arrivals and are refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa

from loadgen.errors import RecordError
from loadgen.openai_texts import documents, input_chars, input_ids, output_chars, usage_tokens
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.json_path import JsonPath
from loadgen.record.line_batch import WRITTEN_FIELD, LineBatch
from loadgen.record.named_fields import NamedFields
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings

_TIMES = ("ts", "timestamp")
_DURATIONS = ("latency_ms", "duration_ms", "latency_s", "duration_s")
_TEXTS = ("messages", "prompt", "input")
# Columns that are worked out, as fields for NamedFields; no log has such a key.
_LENGTHS = {name: f"@{name}" for name in ("input_tokens", "input_chars", "output_tokens", "output_chars")}
_MODEL, _STATUS, _PROMPT = "@model", "@status", "@prompt"
_HINT = 'log the moment of sending beside each pair: {"ts": ..., "request": ..., "response": ...}'


class OpenaiPairsFormat:
    """Request/response pairs."""

    needs = "a request is a line with the fields request and response"

    def __init__(self, settings: RecordSettings) -> None:
        self._settings = settings
        self._fields: NamedFields | None = None

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        found = [document for line in head[:20] if (document := _object(line)) is not None]
        return any(_pair(document) or _why_refused(document) for document in found)

    @property
    def order_matters(self) -> bool:
        """Whether lines have to be read in their order, by one process."""
        return self._fields is not None and self._fields.order_matters

    def stamp_facts(self) -> StampFacts:
        assert self._fields is not None
        return self._fields.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        for batch in batches:
            numbers: list[int] = []
            pairs: list[dict[str, Any]] = []
            for index, line in enumerate(batch.lines()):
                document = _object(line)
                if document is None and not (batch.is_unwrapped and not line.startswith(b"{")):
                    findings.add_malformed(batch.source, batch.number_of(index), "no JSON object", line)
                elif document is None or not _pair(document):
                    findings.num_other += 1
                    if document is not None and (reason := _why_refused(document)) is not None:
                        raise RecordError(f"{batch.source}:{batch.number_of(index)}: {reason}", hint=_HINT)
                else:
                    if batch.written is not None:
                        document[WRITTEN_FIELD] = batch.written[index]
                    numbers.append(index)
                    pairs.append(document)
            if not pairs:
                continue
            fields = self._fields = self._fields or self._fields_of(pairs[0], batch.source)
            requests, faults = fields.read(_columns(pairs, fields.fields), batch.places(numbers))
            findings.add_faults(batch, numbers, faults)
            streams = [
                _flag(pair["request"].get("stream")) for row, pair in enumerate(pairs) if row not in faults
            ]
            yield RequestBatch(
                requests.arrival_unix_ns, {**requests.columns, "stream": pa.array(streams, pa.bool_())}
            )
        if self._fields is not None:
            self._fields.report(findings)

    def _fields_of(self, pair: dict[str, Any], source: str) -> NamedFields:
        """What to read, as far as the user left it open. Raises RecordError if no moment is known."""
        settings = self._settings
        time = settings.time_field or next((name for name in _TIMES if name in pair), None)
        if time is None:
            raise RecordError(
                f"{source}: the pairs carry no moment (ts, timestamp); `created` is no arrival: whole seconds, "
                "near the first token",
                hint=f"name the field with --time, or {_HINT}",
            )
        duration = settings.duration_field or next((name for name in _DURATIONS if name in pair), None)
        return NamedFields(
            replace(
                settings,
                time_field=time,
                duration_field=duration,
                length_fields=_LENGTHS,
                prompt_field=settings.prompt_field or _PROMPT,
                model_field=settings.model_field or _MODEL,
                status_field=settings.status_field or _STATUS,
            )
        )


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        try:
            # A text that was cut within a character is JSON still, which only the other reader takes.
            document = json.loads(line)
        except (ValueError, RecursionError):
            return None
    return document if isinstance(document, dict) else None


def _pair(document: dict[str, Any]) -> bool:
    """Whether this is a pair; its halves are decoded if they are JSON within JSON."""
    for half in ("request", "response"):
        if isinstance(document.get(half), str):
            document[half] = _object(document[half].encode("utf-8", "surrogatepass")) or document[half]
    request = document.get("request")
    return isinstance(request, dict) and any(key in request for key in _TEXTS) and "response" in document


def _why_refused(document: dict[str, Any]) -> str | None:
    """What a line of OpenAI's is from which no arrivals can be had; None for any other."""
    kind = str(document.get("object"))
    if "custom_id" in document and ("response" in document or "body" in document):
        return "a line of the batch API, whose requests are worked off in any order: there are no arrivals"
    if kind == "bucket" and "results" in document:
        return "a sum of the usage API, which tells no single request"
    if kind in ("chat.completion", "text_completion", "response") and (
        "created" in document or "created_at" in document
    ):
        return "a response alone, whose `created` is no arrival: whole seconds, near the first token"
    return None


def _columns(pairs: Sequence[dict[str, Any]], fields: Iterable[str]) -> dict[str, list[Any]]:
    requests = [pair["request"] for pair in pairs]
    responses = [pair["response"] if isinstance(pair["response"], dict | list) else {} for pair in pairs]
    columns: dict[str, list[Any]] = {
        "@input_chars": [input_chars(request) for request in requests],
        "@output_chars": [output_chars(response) for response in responses],
        "@input_tokens": [
            tokens if (tokens := usage_tokens(response, "input")) is not None else input_ids(request)
            for request, response in zip(requests, responses, strict=True)
        ],
        "@output_tokens": [usage_tokens(response, "output") for response in responses],
        _PROMPT: [next((request[key] for key in _TEXTS if request.get(key)), None) for request in requests],
        _MODEL: [request.get("model") for request in requests],
        _STATUS: [_status(response) for response in responses],
    }
    for name in fields:
        if name not in columns:
            path = JsonPath(name)
            columns[name] = [path(pair) for pair in pairs]
    return columns


def _status(response: Any) -> object:
    """The code of an error; 200 for an answer, which comes with no other."""
    for document in documents(response):
        error = document.get("error")
        if error is not None:
            return error.get("code") if isinstance(error, dict) else None
    return 200 if output_chars(response) is not None else None


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None
