"""Trace files: Parquet with zstd and one JSON document of metadata; whole under their final name, or absent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.atomic_file import replacing
from loadgen.content_hash import ContentHash
from loadgen.errors import TraceError
from loadgen.trace.location import is_url
from loadgen.trace.schema import FORMAT_VERSION, METADATA_KEY, SCHEMA
from loadgen.trace.trace import SourceFile, Trace, TraceMetadata, check_rows, no_rows

# Rows of a row group: what a reader of a part has to decode at least.
ROW_GROUP_ROWS = 1 << 18


class TraceWriter:
    """Writes a trace that comes in parts: rows ascending by arrival, what is known of it at the end.

    Memory does not grow with the trace. Raises TraceError for rows that break the trace format.
    """

    def __init__(self, file: Path) -> None:
        # Arrivals ascend in small steps and names repeat; the other columns have too many values for a dictionary.
        self._writer = pq.ParquetWriter(
            file,
            SCHEMA,
            compression="zstd",
            use_dictionary=["model", "endpoint"],
            column_encoding={"arrival_ns": "DELTA_BINARY_PACKED", "duration_ns": "DELTA_BINARY_PACKED"},
        )
        self._hash = ContentHash(SCHEMA)
        self._last_arrival_ns = 0
        self.num_rows = 0

    def write(self, table: pa.Table) -> None:
        """Add rows, at most ROW_GROUP_ROWS at once for even row groups."""
        check_rows(table, first_row=self.num_rows, not_before_ns=self._last_arrival_ns)
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        self._hash.update(table)
        self._last_arrival_ns = table.column("arrival_ns")[-1].as_py()
        self.num_rows += table.num_rows

    def close(self, metadata: TraceMetadata) -> None:
        """Finish the file. Raises TraceError if there was no row."""
        if self.num_rows == 0:
            raise no_rows()
        document = {
            "format_version": FORMAT_VERSION,
            "rows": self.num_rows,
            "trace_id": self._hash.hexdigest(),
            **asdict(metadata),
        }
        packed = json.dumps(document, allow_nan=False, ensure_ascii=True).encode()
        self._writer.add_key_value_metadata({METADATA_KEY: packed})
        self._writer.close()


@contextmanager
def writing(path: Path) -> Iterator[TraceWriter]:
    """A TraceWriter for `path`: the file is whole or absent, an earlier one replaced only by a complete one.

    The caller closes the writer with the metadata. Raises TraceError when the disk or the folder refuses.
    """
    try:
        with replacing(path) as aside:
            yield TraceWriter(aside)
    except (OSError, pa.ArrowException) as exc:
        raise TraceError(
            f"{path}: cannot write the trace ({_reason(exc)})", hint="check the folder and the free space"
        ) from exc


def write_trace(trace: Trace, path: Path) -> None:
    """Write `trace` to `path`, whole or not at all. Raises TraceError when the disk or the folder refuses."""
    with writing(path) as writer:
        for start in range(0, trace.num_rows, ROW_GROUP_ROWS):
            writer.write(trace.table.slice(start, ROW_GROUP_ROWS))
        writer.close(trace.metadata)


def read_trace(path: Path) -> Trace:
    """The trace in `path`.

    Raises TraceError naming the file if it is missing, empty, cut, no Parquet, no trace, of a newer
    format version, of another row count than its metadata says, or breaks the trace format.
    """
    table, document = _load(path)
    version = document.get("format_version")
    if not isinstance(version, int) or version < 1:
        raise TraceError(f"{path}: trace format version is {version!r}, which is none")
    if version > FORMAT_VERSION:
        raise TraceError(
            f"{path}: trace format version {version} is newer than {FORMAT_VERSION}, the newest known here",
            hint="upgrade loadgen, or record the trace again with this version",
        )
    if document.get("rows") != table.num_rows:
        raise TraceError(
            f"{path}: {table.num_rows} rows, but its metadata says {document.get('rows')}",
            hint="the file was changed after it was written; record or convert it again",
        )
    try:
        metadata = _metadata(document)
        if not table.schema.equals(SCHEMA):
            table = _with_dictionaries(table)
        return Trace(table.replace_schema_metadata(None), metadata)
    except TraceError as error:
        raise TraceError(f"{path}: {error.message}", hint=error.hint) from error
    except (KeyError, TypeError) as exc:
        raise TraceError(f"{path}: its trace metadata is incomplete ({exc})") from exc


def _load(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise TraceError(f"{path}: a folder, not a trace file")
        if size == 0:
            raise TraceError(
                f"{path}: the file is empty (0 bytes)", hint="its writer did not finish; record it again"
            )
        # Not memory-mapped: a file replaced during the read must not change under us.
        with pq.ParquetFile(path, memory_map=False) as file:
            packed = (file.metadata.metadata or {}).get(METADATA_KEY)
            if packed is None:
                raise TraceError(
                    f"{path}: Parquet, but no loadgen trace (no {METADATA_KEY.decode()!r} metadata)",
                    hint="make a trace from it with `loadgen record` or `loadgen trace convert`",
                )
            table = file.read()
        document = json.loads(packed)
    except FileNotFoundError as exc:
        hint = "traces are read from this machine: copy it here first" if is_url(path) else None
        raise TraceError(f"{path}: no such file", hint=hint) from exc
    except OSError as exc:
        # Arrow reports cut or damaged contents as OSError without an errno.
        if exc.errno is not None:
            raise TraceError(f"{path}: cannot be read ({exc.strerror})") from exc
        raise _damaged(path, size) from exc
    except (pa.ArrowException, ValueError) as exc:
        raise _damaged(path, size) from exc
    if not isinstance(document, dict):
        raise TraceError(f"{path}: its trace metadata is no JSON object")
    return table, document


def _damaged(path: Path, size: int) -> TraceError:
    return TraceError(
        f"{path}: no readable Parquet file ({size} bytes); cut short, damaged or of another kind",
        hint="record or convert it again",
    )


def _with_dictionaries(table: pa.Table) -> pa.Table:
    """Names as the schema's dictionaries, should another writer have stored them plainly."""
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in table.schema.names and pa.types.is_dictionary(field.type)
        else table.column(field.name)
        for field in SCHEMA
        if field.name in table.schema.names
    ]
    names = [field.name for field in SCHEMA if field.name in table.schema.names]
    rebuilt = pa.table(dict(zip(names, columns, strict=True)))
    fields = [
        SCHEMA.field(name) if rebuilt.schema.field(name).type == SCHEMA.field(name).type else field
        for name, field in zip(names, rebuilt.schema, strict=True)
    ]
    return pa.Table.from_arrays(rebuilt.columns, schema=pa.schema(fields))


def _metadata(document: dict[str, Any]) -> TraceMetadata:
    return TraceMetadata(
        origin_unix_ns=document["origin_unix_ns"],
        stamp_marks=document["stamp_marks"],
        arrival_from=document["arrival_from"],
        resolution_ns=document.get("resolution_ns"),
        zone=document.get("zone"),
        sources=tuple(SourceFile(**source) for source in document.get("sources", ())),
        recorder=document.get("recorder", {}),
        counts=document.get("counts", {}),
        warnings=tuple(document.get("warnings", ())),
        prefix_block_tokens=document.get("prefix_block_tokens"),
    )


def _reason(exc: BaseException) -> str:
    return getattr(exc, "strerror", None) or str(exc).splitlines()[0]
