"""Hash of a table's values: equal for equal rows, whatever the file, its compression or its chunks."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def content_hash(table: pa.Table) -> str:
    """16 hex digits of the SHA-256 over each column's name, nulls and values, in the order of the columns."""
    digest = hashlib.sha256()
    for name in table.schema.names:
        digest.update(name.encode())
        column = table.column(name)
        if pa.types.is_dictionary(column.type):
            # Numbering within a dictionary depends on how chunks were written; the values do not.
            column = column.cast(pa.string())
        digest.update(
            _value_bytes(pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type))
        )
    return digest.hexdigest()[:16]


def _value_bytes(array: pa.Array) -> bytes:
    """Values and nulls as bytes that do not depend on offsets or padding."""
    present = np.packbits(np.asarray(array.is_valid())).tobytes()
    if pa.types.is_list(array.type):
        lengths = np.asarray(pc.fill_null(pc.list_value_length(array), 0), dtype=np.int64)
        return present + lengths.tobytes() + _value_bytes(array.flatten())
    if pa.types.is_string(array.type):
        filled = pc.fill_null(array, "")
        lengths = np.asarray(pc.binary_length(filled), dtype=np.int64)
        return present + lengths.tobytes() + "".join(filled.to_pylist()).encode()
    if pa.types.is_boolean(array.type):
        return present + np.asarray(pc.fill_null(array, False)).tobytes()
    return present + np.ascontiguousarray(pc.fill_null(array, 0).to_numpy(zero_copy_only=False)).tobytes()
