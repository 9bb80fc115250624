"""Shares: a schedule dealt out to workers."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def share_of(table: pa.Table, worker: int, num_workers: int) -> pa.Table:
    """The rows of a schedule's table that `worker` sends, in order; the shares of all workers make the whole.

    Rows are dealt in turn, so that each worker has its part of every burst; rows of one session stay together.
    """
    if num_workers == 1:
        return table
    owners = np.arange(table.num_rows, dtype=np.int64) % num_workers
    sessions = table.column("session").combine_chunks()
    in_session = np.asarray(sessions.is_valid())
    owners[in_session] = np.asarray(sessions.fill_null(0), dtype=np.int64)[in_session] % num_workers
    return table.filter(pa.array(owners == worker))
