"""Requests as a log gives them -> rows in order of arrival, in memory that does not grow with the log."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.errors import RecordError
from loadgen.record.request_batch import RequestBatch, as_arrow
from loadgen.trace.schema import SCHEMA

# Rows held in memory until they are sorted and put on disk as one run: some 50 bytes each.
_RUN_ROWS = 1 << 20
# Rows of a run that the merge holds at once.
_PART_ROWS = 1 << 15
# Rows of a merged part.
_MERGED_ROWS = 1 << 18

ARRIVAL = "arrival_unix_ns"
SESSION_KEY = "session_key"
_COLUMNS = pa.schema(
    [
        pa.field(ARRIVAL, pa.int64(), nullable=False),
        *(field for field in SCHEMA if field.name not in ("arrival_ns", "session")),
        pa.field(SESSION_KEY, pa.int64()),
    ]
)


class RequestStore:
    """Collects requests in the order of the log and gives them back in order of arrival, ties as they came.

    Ids of sessions are hashed with `salt` as they are added, and exist here only so. Rows beyond a million
    wait in files without a name until `close`; external merge sort (Knuth, The Art of Computer Programming 3, 5.4).
    """

    def __init__(self, salt: bytes, *, run_rows: int = _RUN_ROWS) -> None:
        self._salt = salt
        self._run_rows = run_rows
        self._waiting: list[pa.Table] = []
        self._num_waiting = 0
        self._runs: list[IO[bytes]] = []
        self._columns: set[str] = set()
        self.num_rows = 0

    def has(self, column: str) -> bool:
        """Whether any batch had this column."""
        return column in self._columns

    def add(self, batch: RequestBatch) -> None:
        """Add requests. Raises RecordError if a value fits no column."""
        table = _table_of(batch, self._salt)
        if not table.num_rows:
            return
        self._columns.update(table.schema.names)
        self._waiting.append(table)
        self._num_waiting += table.num_rows
        self.num_rows += table.num_rows
        if self._num_waiting >= self._run_rows:
            self._put_on_disk()

    def sorted_parts(self) -> Iterator[pa.Table]:
        """All rows so far, ascending by arrival, in tables of ARRIVAL, SESSION_KEY and the trace's columns.

        More rows may be added afterwards, and the whole asked for again.
        """
        last = [_sorted(self._waiting)] if self._waiting else []
        if not self._runs:
            for table in last:
                yield from _slices(table, _MERGED_ROWS)
            return
        runs: list[Iterator[pa.Table]] = [_read_run(file) for file in self._runs]
        runs += [_slices(table, _PART_ROWS) for table in last]
        yield from _gathered(_merged(runs))

    def close(self) -> None:
        """Forget all rows."""
        for file in self._runs:
            file.close()
        self._waiting, self._runs = [], []

    def _put_on_disk(self) -> None:
        table = _sorted(self._waiting)
        try:
            # Without a name from the start: nothing is left behind, however this process ends.
            file = tempfile.TemporaryFile()  # noqa: SIM115  # open as long as the store
            self._runs.append(file)
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table, max_chunksize=_PART_ROWS)
        except OSError as exc:
            raise RecordError(
                f"{tempfile.gettempdir()}: requests cannot be put aside ({exc.strerror or exc})",
                hint="free space there, or name another folder with TMPDIR",
            ) from exc
        self._waiting, self._num_waiting = [], 0


def _table_of(batch: RequestBatch, salt: bytes) -> pa.Table:
    """The batch as columns of the store, only those that it has."""
    size = batch.arrival_unix_ns.size
    columns: dict[str, pa.Array] = {ARRIVAL: pa.array(batch.arrival_unix_ns)}
    for name, values in batch.columns.items():
        if name == "session":
            columns[SESSION_KEY] = _session_keys(values, salt)
        elif values is not None:
            columns[name] = as_arrow(name, values)
    if not size:
        return pa.table({ARRIVAL: pa.array([], pa.int64())})
    return pa.table(columns, schema=pa.schema([_COLUMNS.field(name) for name in columns]))


def _session_keys(ids: Any, salt: bytes) -> pa.Array:
    """int64: the salted hash of each id; null for none and for an empty one."""
    coded = as_arrow("session", ids).dictionary_encode()
    keys = [None if not name else _session_key(name, salt) for name in coded.dictionary.to_pylist()]
    return pa.array(keys, pa.int64()).take(coded.indices)


def _session_key(name: str, salt: bytes) -> int:
    hashed = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8, key=salt)
    return int.from_bytes(hashed.digest(), "little", signed=True)


def _sorted(tables: list[pa.Table]) -> pa.Table:
    whole = _concatenated(tables)
    order = np.argsort(whole.column(ARRIVAL).to_numpy(), kind="stable")
    return whole.take(pa.array(order)).combine_chunks()


def _concatenated(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables, promote_options="default").unify_dictionaries()


def _slices(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _read_run(file: IO[bytes]) -> Iterator[pa.Table]:
    reader = pa.ipc.open_file(file)
    for index in range(reader.num_record_batches):
        yield pa.Table.from_batches([reader.get_batch(index)])


def _merged(runs: list[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """The rows of sorted runs in order, ties in the order of the runs.

    In each step all rows before the earliest of the last rows at hand can be given: what is still to be read
    is not before it.
    """
    at_hand: dict[int, pa.Table] = {}
    ended: set[int] = set()

    def read(run: int) -> None:
        part = next(runs[run], None)
        if part is None:
            ended.add(run)
        elif run in at_hand:
            at_hand[run] = _concatenated([at_hand[run], part])
        else:
            at_hand[run] = part

    for run in range(len(runs)):
        read(run)
    while at_hand:
        bounds = [_arrivals(table)[-1] for run, table in at_hand.items() if run not in ended]
        bound = min(bounds, default=None)
        ready: list[pa.Table] = []
        for run in sorted(at_hand):
            table = at_hand.pop(run)
            count = (
                table.num_rows
                if bound is None
                else int(np.searchsorted(_arrivals(table), bound, side="left"))
            )
            if count:
                ready.append(table.slice(0, count))
            if count < table.num_rows:
                at_hand[run] = table.slice(count)
        if ready:
            yield _sorted(ready)
        for run in range(len(runs)):
            if run in ended:
                continue
            if run not in at_hand or _arrivals(at_hand[run])[-1] == bound:
                read(run)


def _gathered(parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of _MERGED_ROWS."""
    held: list[pa.Table] = []
    num_held = 0
    for part in parts:
        held.append(part)
        num_held += part.num_rows
        while num_held >= _MERGED_ROWS:
            whole = _concatenated(held)
            yield whole.slice(0, _MERGED_ROWS).combine_chunks()
            held = [whole.slice(_MERGED_ROWS)]
            num_held -= _MERGED_ROWS
    if num_held:
        yield _concatenated(held).combine_chunks()


def _arrivals(table: pa.Table) -> npt.NDArray[np.int64]:
    return np.asarray(table.column(ARRIVAL).to_numpy(), dtype=np.int64)
