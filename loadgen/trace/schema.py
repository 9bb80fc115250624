"""The trace format: which columns a trace file holds, of which type, and what they mean."""

from __future__ import annotations

import pyarrow as pa

# Trace file format. Version 1 (2026-12): arrival, lengths, production's own timing, session, prefix blocks.
# A reader refuses a newer version.
FORMAT_VERSION = 1

METADATA_KEY = b"loadgen.trace"

INPUT_COLUMNS = ("input_tokens", "input_chars", "input_bytes")
OUTPUT_COLUMNS = ("output_tokens", "output_chars", "output_bytes")
LENGTH_COLUMNS = INPUT_COLUMNS + OUTPUT_COLUMNS

_NAME = pa.dictionary(pa.int32(), pa.string())

# Null means "not known", never 0.
SCHEMA = pa.schema(
    [
        pa.field(
            "arrival_ns", pa.int64(), nullable=False
        ),  # since the origin, ascending, ties in source order
        *(pa.field(column, pa.int32()) for column in LENGTH_COLUMNS),
        pa.field("duration_ns", pa.int64()),  # what production measured for this request
        pa.field("ttft_ns", pa.int64()),
        pa.field("status", pa.int16()),  # HTTP status
        pa.field("model", _NAME),
        pa.field("endpoint", _NAME),  # path without its query string
        pa.field(
            "session", pa.int32()
        ),  # dense numbers; the source's id is hashed with a salt, then numbered
        pa.field("prefix_blocks", pa.list_(pa.int64())),  # shared-prefix block ids, size in the metadata
        pa.field("stream", pa.bool_()),
    ]
)
