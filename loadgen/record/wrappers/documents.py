"""Wrappers that are JSON documents: CloudWatch events, Loki query results, arrays of records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import orjson

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.elements import elements
from loadgen.record.wrappers.wrapper import Unwrapped

# Under which keys exports and query answers carry their records; "" is an array at the top.
_RECORD_KEYS = ("", "data", "resourceSpans", "batches")
_RECORDS = re.compile(
    rb'\s*(?:\[\s*\{|\{(?:.*?[{,])?\s*"(?:data|resourceSpans|batches)"\s*:\s*\[\s*\{)', re.DOTALL
)


class CloudwatchWrapper:
    """CloudWatch `get-log-events`: events with timestamp (ms, the event's) and message."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        start = b"".join(head[:40])
        return b'"events"' in start and b'"message"' in start and b'"ingestionTime"' in start

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        for outer, events in elements(batches, ("events",), findings):
            inner = Unwrapped(outer)
            for event in events:
                try:
                    message = event.value["message"].encode("utf-8", "surrogatepass")
                    inner.add(message, str(event.value["timestamp"]), event.line)
                except (TypeError, KeyError, AttributeError):
                    findings.add_malformed(outer.source, event.line, "no CloudWatch event", event.text)
            yield inner.batch()


class LokiWrapper:
    """Loki `query_range`: for each stream, pairs of epoch ns and line, newest first."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        start = b"".join(head[:40])[:2000]
        return b'"data"' in start and b'"result"' in start and b'"values"' in start

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        first: LineBatch | None = None
        entries: list[tuple[int, bytes, int]] = []
        for outer, pairs in elements(batches, ("values",), findings):
            if first is not None and outer.file_index != first.file_index:
                yield _oldest_first(first, entries)
                first, entries = None, []
            first = first or outer
            for pair in pairs:
                try:
                    line = pair.value[1].encode("utf-8", "surrogatepass")
                    entries.append((int(pair.value[0]), line, pair.line))
                except (ValueError, TypeError, LookupError, AttributeError):
                    findings.add_malformed(outer.source, pair.line, "no Loki entry", pair.text)
        if first is not None:
            yield _oldest_first(first, entries)


class ArrayWrapper:
    """A JSON array of records, at the top of a document or under `data`: what APIs answer and tables export.

    Each record becomes a line. Spans of OTLP come like this, too, when they are written as one document.
    """

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        if not _RECORDS.match(b"\n".join(head)):
            return False
        lines = [line for line in head if line.strip()]
        if lines[0].lstrip().startswith(b"["):
            return True
        # Lines that are such objects each are batches of a longer log.
        return len(lines) == 1 or not any(_has_records(line) for line in lines[:20])

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        for outer, records in elements(batches, _RECORD_KEYS, findings):
            inner = Unwrapped(outer)
            for record in records:
                inner.add(record.text, None, record.line)
            yield inner.batch()


def _oldest_first(outer: LineBatch, entries: list[tuple[int, bytes, int]]) -> LineBatch:
    """The entries in the order in which a file would hold them."""
    inner = Unwrapped(outer)
    for time_ns, line, number in sorted(entries, key=lambda entry: entry[0]):
        inner.add(line, str(time_ns), number)
    return inner.batch()


def _has_records(line: bytes) -> bool:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return isinstance(document, dict) and any(isinstance(document.get(key), list) for key in _RECORD_KEYS)
