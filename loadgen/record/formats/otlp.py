"""OpenTelemetry spans of model calls as OTLP JSON: startTimeUnixNano is the arrival, in ns.

Source: OTLP's JSON mapping (64-bit numbers are strings, some writers use numbers) and the GenAI conventions
of opentelemetry.io, with the names that came before them and those of vLLM, SGLang and OpenInference. A line
is a batch of spans; a document over several lines is taken apart by the wrapper `array`. Only spans that
carry usage are model calls: HTTP parents do not, and spans of agents and tools sum up those within them.
Requests and others are counted in spans.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from loadgen.record.fields import (
    count_or_none,
    duration_ns_or_none,
    name_or_none,
    session_or_none,
    status_or_none,
)
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch, RequestRows
from loadgen.record.settings import RecordSettings

# A batch may be longer than what is looked at, so it is not decoded.
_LOOK = re.compile(rb'"(?:resourceSpans|scopeSpans)"\s*:')
_COLUMNS = ("input_tokens", "output_tokens", "duration_ns", "ttft_ns", "status", "model", "session", "stream")
_INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
# In seconds: the convention's attribute, its server metric written to a span, and what vLLM and SGLang write.
_FIRST_TOKEN = (
    "gen_ai.response.time_to_first_chunk",
    "gen_ai.server.time_to_first_token",
    "gen_ai.latency.time_to_first_token",
)
_STATUS = ("http.response.status_code", "error.type")
_MODEL = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_SESSION = ("gen_ai.conversation.id", "session.id")
_STREAM = ("gen_ai.request.stream", "llm.is_streaming")
_OPERATION = ("gen_ai.operation.name",)
_READ = frozenset((*_INPUT, *_OUTPUT, *_FIRST_TOKEN, *_STATUS, *_MODEL, *_SESSION, *_STREAM, *_OPERATION))
_NO_MODEL_CALLS = ("create_agent", "invoke_agent", "invoke_workflow", "execute_tool")
_ERROR_CODES = (2, "2", "STATUS_CODE_ERROR")

Attributes = Mapping[str, Any]


class OtlpFormat:
    """OTLP JSON lines."""

    needs = "a model call is a span with gen_ai.usage.* attributes"

    def __init__(self, settings: RecordSettings) -> None:
        pass

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(_LOOK.search(line) for line in head[:20])

    def stamp_facts(self) -> StampFacts:
        return StampFacts("arrival", "startTimeUnixNano as it stands")

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.assume("kept: spans that carry usage, but for those of agents, workflows and tools")
        rows = RequestRows(_COLUMNS)
        num_nested, num_late = 0, 0
        for batch in batches:
            for index, line in enumerate(batch.lines()):
                if batch.is_unwrapped and not line.startswith(b"{"):
                    findings.num_other += 1
                    continue
                spans = _spans(line)
                if spans is None:
                    findings.add_malformed(batch.source, batch.number_of(index), "no JSON object", line)
                    continue
                calls = [(span, found) for span in spans if (found := _attributes(span)) and _is_call(found)]
                findings.num_other += max(len(spans), 1) - len(calls)
                num_nested += _num_nested([span for span, _ in calls])
                for span, found in calls:
                    try:
                        arrival_ns, values = _request(span, found)
                    except ValueError as exc:
                        findings.add_malformed(batch.source, batch.number_of(index), str(exc), line)
                        continue
                    duration_ns, ttft_ns = values[2:4]
                    if ttft_ns is not None and duration_ns is not None and ttft_ns > duration_ns:
                        num_late += 1
                        values = (*values[:3], None, *values[4:])
                    rows.add(arrival_ns, values)
            yield rows.take()
        if num_nested:
            findings.warn(
                f"{num_nested} spans with usage stand around others with usage: the same call may count twice"
            )
        if num_late:
            findings.warn(
                f"{num_late} times to first token are longer than their span, and left out: are they in s?"
            )


def _spans(line: bytes) -> list[dict[str, Any]] | None:
    """All spans in a batch, or in one resource's part of it; none of other signals. None if it is no object."""
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    resources = document.get("resourceSpans", document.get("batches", [document]))
    return [
        span
        for resource in _dicts(resources)
        # Before version 0.19 of the protocol the scope had another name.
        for scope in _dicts(resource.get("scopeSpans", resource.get("instrumentationLibrarySpans")))
        for span in _dicts(scope.get("spans"))
    ]


def _attributes(span: Mapping[str, Any]) -> Attributes:
    """The values of the attributes that are read, whatever their type."""
    found: dict[str, Any] = {}
    for attribute in _dicts(span.get("attributes")):
        key, value = attribute.get("key"), attribute.get("value")
        if isinstance(key, str) and key in _READ:
            found[key] = next(iter(value.values()), None) if isinstance(value, dict) else value
    return found


def _is_call(found: Attributes) -> bool:
    has_usage = _first(found, _INPUT) is not None or _first(found, _OUTPUT) is not None
    return has_usage and _first(found, _OPERATION) not in _NO_MODEL_CALLS


def _request(span: Mapping[str, Any], found: Attributes) -> tuple[int, tuple[Any, ...]]:
    """Arrival and values of a span. Raises ValueError if it has no start or a length is none."""
    start_ns, end_ns = _moment_ns(span.get("startTimeUnixNano")), _moment_ns(span.get("endTimeUnixNano"))
    if start_ns is None:
        raise ValueError("a span without startTimeUnixNano")
    status = span.get("status")
    has_failed = isinstance(status, dict) and status.get("code") in _ERROR_CODES
    lengths = [count_or_none(_first(found, names)) for names in (_INPUT, _OUTPUT)]
    if has_failed and not any(lengths):
        # A call that failed before its tokens were counted: 0 means not known.
        lengths = [None, None]
    stream = _first(found, _STREAM)
    return start_ns, (
        *lengths,
        None if end_ns is None else max(0, end_ns - start_ns),
        duration_ns_or_none(_first(found, _FIRST_TOKEN), 10**9),
        status_or_none(_first(found, _STATUS)),
        name_or_none(_first(found, _MODEL)),
        session_or_none(_first(found, _SESSION)),
        stream if isinstance(stream, bool) else None,
    )


def _num_nested(calls: Sequence[Mapping[str, Any]]) -> int:
    """How many of these spans are the parent of another."""
    parents = {str(span.get("parentSpanId")) for span in calls}
    return sum(str(span.get("spanId")) in parents for span in calls)


def _moment_ns(value: object) -> int | None:
    """Unix ns; None where there is none, and for 0, which is protobuf's way to say so."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    try:
        moment_ns = int(value)
    except ValueError:
        return None
    return moment_ns if 0 < moment_ns < 2**62 else None


def _first(found: Attributes, names: Sequence[str]) -> Any:
    return next((found[name] for name in names if found.get(name) is not None), None)


def _dicts(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
