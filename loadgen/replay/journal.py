"""Journal: records on disk while the run goes on; what survives a SIGKILL."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from loadgen.replay.request_record import SCHEMA


class JournalWriter:
    """An Arrow IPC stream; each batch that was appended is in the kernel's hands when `append` returns."""

    def __init__(self, path: Path) -> None:
        # Unbuffered: a killed process loses what it holds, not what the kernel has. Arrow's own file, since a
        # batch is a hundred small writes, and through Python they would hold up the sends.
        self._file = pa.OSFile(str(path), "wb")
        # Dictionaries differ from batch to batch, which the stream format allows.
        self._stream = pa.ipc.new_stream(self._file, SCHEMA)

    def append(self, batch: pa.RecordBatch) -> None:
        self._stream.write_batch(batch)

    def close(self) -> None:
        self._stream.close()
        self._file.close()
