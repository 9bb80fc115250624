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
            for number, event in enumerate(document.get("events", ()), start=1):
                inner.add(str(event.get("message", "")).encode(), str(event.get("timestamp", "")), number)
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
            results = (document.get("data") or {}).get("result") or ()
            entries = [entry for stream in results for entry in stream.get("values", ())]
            # Oldest first, as a file would hold them.
            for number, entry in enumerate(sorted(entries, key=lambda one: int(one[0])), start=1):
                inner.add(str(entry[1]).encode(), str(entry[0]), number)
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
