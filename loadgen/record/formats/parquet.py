"""Parquet tables of any column names: the user says which column is which.

A timestamp column knows its unit; with a zone it is UTC inside, without one it is taken in --zone. Numbers are
read as in the other tables. Baseten's and other exports are of this kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.row_reader import Getter, RowReader
from loadgen.record.settings import RecordSettings

_MAGIC = b"PAR1"


class ParquetFormat:
    """Generic Parquet. Places of rows are counted from 1."""

    def __init__(self, settings: RecordSettings) -> None:
        self._reader = RowReader(settings, _getter)
        wanted = (
            settings.time_field,
            settings.duration_field,
            *settings.length_fields.values(),
            settings.model_field,
            settings.status_field,
            settings.session_field,
        )
        self._wanted = list(dict.fromkeys(name for name in wanted if name is not None))

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return bool(head) and head[0].startswith(_MAGIC)

    def stamp_facts(self) -> StampFacts:
        return self._reader.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        num_rows = 0
        for _, of_file in groupby(batches, key=lambda batch: batch.file_index):
            # A Parquet file can be read from its end only: the blocks of the stream are put together again.
            pieces = list(of_file)
            source = pieces[0].source
            table = self._table(b"".join(piece.data for piece in pieces), source)
            for number, row in enumerate(table.to_pylist(), start=1):
                try:
                    self._reader.add(row, f"{source}:{number}")
                except RecordError:
                    raise
                except ValueError as exc:
                    findings.add_malformed(source, number, str(exc), b"")
            num_rows += table.num_rows
            yield self._reader.rows.take()
        findings.num_lines = num_rows
        self._reader.report(findings)

    def _table(self, data: bytes, source: str) -> pa.Table:
        """The wanted columns, timestamps as text that keeps every digit."""
        try:
            file = pq.ParquetFile(pa.BufferReader(data))
            names = file.schema_arrow.names
            for wanted in self._wanted:
                if wanted not in names:
                    raise RecordError(
                        f"{source}: no column {wanted!r}", hint="there are: " + ", ".join(names)[:300]
                    )
            table = file.read(self._wanted)
        except (pa.ArrowException, OSError) as exc:
            raise RecordError(
                f"{source}: no readable Parquet file; cut short, damaged or of another kind"
            ) from exc
        return pa.table({name: _as_read(table.column(name)) for name in self._wanted})


def _as_read(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_timestamp(column.type):
        if column.type.tz is not None:
            column = column.cast(pa.timestamp(column.type.unit, "UTC"))
        return column.cast(pa.string())
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    return column


def _getter(name: str) -> Getter:
    def get(row: dict[str, Any]) -> Any:
        return row[name]

    return get
