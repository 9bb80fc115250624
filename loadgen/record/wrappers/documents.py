"""Wrappers that are one JSON document of a whole file: CloudWatch events, Loki query results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import orjson

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.wrapper import Unwrapped


class CloudwatchWrapper:
    """CloudWatch `get-log-events`: events with timestamp (ms, the event's) and message."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        start = b"".join(head[:40])
        return b'"events"' in start and b'"message"' in start and b'"ingestionTime"' in start

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        for outer, document in _documents(batches, findings):
            inner = Unwrapped(outer)
            for number, event in enumerate(_list(document.get("events")), start=1):
                try:
                    inner.add(
                        event["message"].encode("utf-8", "surrogatepass"), str(event["timestamp"]), number
                    )
                except (TypeError, KeyError, AttributeError):
                    findings.add_malformed(outer.source, number, "no CloudWatch event", b"")
            yield inner.batch()


class LokiWrapper:
    """Loki `query_range`: for each stream, pairs of epoch ns and line, newest first."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        start = b"".join(head[:40])[:2000]
        return b'"data"' in start and b'"result"' in start and b'"values"' in start

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        for outer, document in _documents(batches, findings):
            inner = Unwrapped(outer)
            data = document.get("data")
            results = _list(data.get("result")) if isinstance(data, dict) else []
            entries: list[tuple[int, bytes]] = []
            for number, entry in enumerate(_entries(results), start=1):
                try:
                    entries.append((int(entry[0]), entry[1].encode("utf-8", "surrogatepass")))
                except (ValueError, TypeError, LookupError, AttributeError):
                    findings.add_malformed(outer.source, number, "no Loki entry", b"")
            # Oldest first, as a file would hold them.
            for number, (time_ns, line) in enumerate(sorted(entries, key=lambda one: one[0]), start=1):
                inner.add(line, str(time_ns), number)
            yield inner.batch()


def _documents(
    batches: Iterable[LineBatch], findings: Findings
) -> Iterator[tuple[LineBatch, dict[str, Any]]]:
    """Each file as one JSON object; one that is none counts as malformed."""
    for _, of_file in groupby(batches, key=lambda batch: batch.file_index):
        pieces = list(of_file)
        try:
            document = orjson.loads(b"".join(piece.data for piece in pieces))
            if not isinstance(document, dict):
                raise ValueError("no JSON object")
        except ValueError as exc:
            findings.add_malformed(pieces[0].source, 1, str(exc), pieces[0].data)
            continue
        yield pieces[0], document


def _entries(streams: list[Any]) -> Iterator[Any]:
    for stream in streams:
        if isinstance(stream, dict):
            yield from _list(stream.get("values"))


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
