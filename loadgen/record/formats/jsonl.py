"""JSON lines of any field names: the user says which field is which."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.json_path import JsonPath
from loadgen.record.line_batch import WRITTEN_FIELD, LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.row_reader import RowReader
from loadgen.record.settings import RecordSettings

# Longer than a float can hold exactly near 2e9 s: such a number is read again by its digits.
_EXACT_DIGITS = 17


class JsonlFormat:
    """Generic JSONL."""

    def __init__(self, settings: RecordSettings) -> None:
        self._time_of = JsonPath(settings.time_field or "")
        self._reader = RowReader(settings, JsonPath)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        for line in head[:20]:
            try:
                if isinstance(orjson.loads(line), dict):
                    return True
            except orjson.JSONDecodeError:
                continue
        return False

    def stamp_facts(self) -> StampFacts:
        return self._reader.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        reader, time_of, loads = self._reader, self._time_of, orjson.loads
        for batch in batches:
            for index, line in enumerate(batch.lines()):
                if batch.is_unwrapped and not line.startswith(b"{"):
                    findings.num_other += 1
                    continue
                try:
                    document = loads(line)
                    if not isinstance(document, dict):
                        raise ValueError("no JSON object")
                    if isinstance(seen := time_of(document), float) and len(repr(seen)) > _EXACT_DIGITS:
                        document = _with_digits(line)
                    if batch.written is not None:
                        document[WRITTEN_FIELD] = batch.written[index]
                    reader.add(document, f"{batch.source}:{batch.number_of(index)}")
                except RecordError:
                    raise
                except ValueError as exc:
                    findings.add_malformed(batch.source, batch.number_of(index), str(exc), line)
            yield reader.rows.take()
        reader.report(findings)


def _with_digits(line: bytes) -> dict[str, Any]:
    """The document with its fractions as text, so that no digit is lost."""
    document: dict[str, Any] = json.loads(line, parse_float=str)
    return document
