"""Parquet tables of any column names: the user says which column is which.

A timestamp column knows its unit; with a zone it is UTC inside, without one it is taken in --zone. Numbers are
read as in the other tables. Baseten's and other exports are of this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import LineBatch
from loadgen.record.named_fields import NamedFields
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings

_MAGIC = b"PAR1"


class ParquetFormat:
    """Generic Parquet. Places of rows are counted from 1."""

    needs = "a request is a row"

    def __init__(self, settings: RecordSettings) -> None:
        self._fields = NamedFields(settings)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return bool(head) and head[0].startswith(_MAGIC)

    def stamp_facts(self) -> StampFacts:
        return self._fields.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        num_rows = 0
        for _, of_file in groupby(batches, key=lambda batch: batch.file_index):
            # A Parquet file can be read from its end only: the blocks of the stream are put together again.
            pieces = list(of_file)
            source = pieces[0].source
            table = self._table(b"".join(piece.data for piece in pieces), source)
            columns = {name: table.column(name).to_pylist() for name in self._fields.fields}
            requests, faults = self._fields.read(columns, _places(source))
            for row, reason in sorted(faults.items()):
                findings.add_malformed(source, row + 1, reason, b"")
            num_rows += table.num_rows
            yield requests
        findings.num_lines = num_rows
        self._fields.report(findings)

    def _table(self, data: bytes, source: str) -> pa.Table:
        """The wanted columns, timestamps as text that keeps every digit."""
        try:
            file = pq.ParquetFile(pa.BufferReader(data))
            names = file.schema_arrow.names
            for wanted in self._fields.fields:
                if wanted not in names:
                    raise RecordError(
                        f"{source}: no column {wanted!r}", hint="there are: " + ", ".join(names)[:300]
                    )
            table = file.read(list(self._fields.fields))
        except (pa.ArrowException, OSError) as exc:
            raise RecordError(
                f"{source}: no readable Parquet file; cut short, damaged or of another kind"
            ) from exc
        return pa.table({name: _as_read(table.column(name)) for name in self._fields.fields})


def _as_read(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        if column.type.tz is not None:
            column = column.cast(pa.timestamp(column.type.unit, "UTC"))
        return column.cast(pa.string())
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def _places(source: str) -> Callable[[int], str]:
    return lambda row: f"{source}:{row + 1}"
