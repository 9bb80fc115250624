"""JSON lines of any field names: the user says which field is which."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.json_columns import JsonColumnReader
from loadgen.record.line_batch import LineBatch
from loadgen.record.named_fields import NamedFields
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings


class JsonlFormat:
    """Generic JSONL."""

    needs = "a request is a line that is a JSON object"

    def __init__(self, settings: RecordSettings) -> None:
        self._fields = NamedFields(settings)
        self._columns = JsonColumnReader(
            self._fields.fields, exact=(self._fields.time,), whole=self._fields.whole
        )

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        for line in head[:20]:
            try:
                if isinstance(orjson.loads(line), dict):
                    return True
            except orjson.JSONDecodeError:
                continue
        return False

    @staticmethod
    def fields_of(head: Sequence[bytes]) -> list[str]:
        """The fields of the first object, those within others dotted."""
        for line in head[:20]:
            try:
                document = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(document, dict):
                return list(_names(document))
        return []

    @property
    def order_matters(self) -> bool:
        return self._fields.order_matters

    def stamp_facts(self) -> StampFacts:
        return self._fields.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        for batch in batches:
            self._fields.check(batch)
            columns = self._columns.read(batch)
            requests, faults = self._fields.read(columns.values, batch.places(columns.numbers))
            findings.num_other += batch.num_lines - len(columns.numbers) - len(columns.faults)
            findings.add_faults(batch, columns.numbers, faults, columns.faults)
            yield requests
        self._fields.report(findings)


def _names(document: Mapping[str, Any]) -> Iterator[str]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from (f"{key}.{inner}" for inner in _names(value))
        else:
            yield key
