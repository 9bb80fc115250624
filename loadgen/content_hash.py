"""Hash of a table's values: equal for equal rows, whatever the file, its compression or its chunks."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


class ContentHash:
    """Collects the values of a table that comes in parts, in the order of its rows.

    Each column has a digest of its own over which rows have a value and one over the values there are, so that
    where a part ends leaves no mark.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._columns = {field.name: _ColumnHash(field.type) for field in schema}

    def update(self, table: pa.Table) -> None:
        """Add the rows of `table`, which has the schema's columns."""
        for name, column in self._columns.items():
            for chunk in table.column(name).chunks:
                column.update(chunk)

    def hexdigest(self) -> str:
        """16 hex digits of the SHA-256 over each column's name and digests, in the order of the columns."""
        digest = hashlib.sha256()
        for name, column in self._columns.items():
            digest.update(name.encode())
            digest.update(column.digest())
        return digest.hexdigest()[:16]


def content_hash(table: pa.Table) -> str:
    """16 hex digits that tell tables of other values apart: ContentHash over the whole table."""
    whole = ContentHash(table.schema)
    whole.update(table)
    return whole.hexdigest()


class _ColumnHash:
    """Digest of one column: nulls, lengths where values have one, values."""

    def __init__(self, column_type: pa.DataType) -> None:
        self._present = hashlib.sha256()
        self._lengths = hashlib.sha256()
        self._values = hashlib.sha256()
        self._items = _ColumnHash(column_type.value_type) if pa.types.is_list(column_type) else None

    def update(self, array: pa.Array) -> None:
        self._present.update(np.asarray(array.is_valid()).data)
        if array.null_count == len(array):
            return
        known = array.drop_null() if array.null_count else array
        if pa.types.is_dictionary(known.type):
            # Numbering within a dictionary depends on how chunks were written; the values do not.
            known = known.cast(known.type.value_type)
        if self._items is not None:
            self._lengths.update(np.asarray(pc.list_value_length(known), dtype=np.int64).data)
            self._items.update(known.flatten())
        elif pa.types.is_string(known.type):
            offsets = np.frombuffer(known.buffers()[1], dtype=np.int32)
            offsets = offsets[known.offset : known.offset + len(known) + 1]
            self._lengths.update(np.diff(offsets).data)
            if offsets[-1] > offsets[0]:
                self._values.update(memoryview(known.buffers()[2])[offsets[0] : offsets[-1]])
        else:
            self._values.update(np.ascontiguousarray(known.to_numpy(zero_copy_only=False)).data)

    def digest(self) -> bytes:
        own = self._present.digest() + self._lengths.digest() + self._values.digest()
        return own + (self._items.digest() if self._items is not None else b"")
