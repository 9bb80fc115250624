"""Shares: a schedule dealt out to workers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def owners_of(table: pa.Table, num_workers: int) -> npt.NDArray[np.int64]:
    """The worker that sends each row of a schedule's table.

    Rows are dealt in turn, so that each worker has its part of every burst; rows of one session stay together.
    """
    owners = np.arange(table.num_rows, dtype=np.int64) % num_workers
    sessions = table.column("session").combine_chunks()
    in_session = np.asarray(sessions.is_valid())
    owners[in_session] = np.asarray(sessions.fill_null(0), dtype=np.int64)[in_session] % num_workers
    return owners


def shares_of(table: pa.Table, num_workers: int) -> list[pa.Table]:
    """What each worker sends, in order; the shares make the whole. One may be empty where sessions are few."""
    if num_workers == 1:
        return [table]
    owners = owners_of(table, num_workers)
    # In one pass, however many workers; copies, since a slice carries the whole table with it when it is sent.
    order = np.argsort(owners, kind="stable")
    ends = np.cumsum(np.bincount(owners, minlength=num_workers))
    whole = table.combine_chunks()
    return [whole.take(pa.array(rows)) for rows in np.split(order, ends[:-1])]
