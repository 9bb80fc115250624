"""Prefix blocks of repeated requests: what only one request had stays its own, what many share stays shared."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Numbers = npt.NDArray[np.int64]

_MIX = np.uint64(0x9E3779B97F4A7C15)


def blocks_of_copies(whole: pa.Table, rows: Numbers, copies: Numbers) -> pa.Array:
    """Block ids for `rows` of a trace's table; a copy above 0 has ids of its own for blocks that are not shared.

    A block is shared when requests of two sessions have it (without a session each request is one). Else the
    k-th copy would find its whole prompt in the target's prefix cache, and be no load at all.
    """
    blocks: pa.ListArray = whole.column("prefix_blocks").combine_chunks().cast(pa.list_(pa.int64()))
    taken = blocks.take(pa.array(rows))
    if blocks.null_count == len(blocks) or not (copies > 0).any():
        return taken
    shared = _shared_ids(blocks, _owners(whole))
    ids = np.asarray(taken.values.to_numpy(zero_copy_only=False)).astype(np.int64)
    offsets = np.asarray(taken.offsets.to_numpy())
    copy_of = np.zeros(ids.size, dtype=np.int64)
    copy_of[offsets[0] : offsets[-1]] = np.repeat(copies, np.diff(offsets))
    is_own = (copy_of > 0) & ~np.isin(ids, shared)
    ids[is_own] = _mixed(ids[is_own], copy_of[is_own])
    return pa.ListArray.from_arrays(taken.offsets, pa.array(ids), mask=taken.is_null())


def _owners(whole: pa.Table) -> Numbers:
    """A number for each row: its session's, or below 0 one of its own."""
    sessions = whole.column("session").combine_chunks()
    owners = -1 - np.arange(whole.num_rows, dtype=np.int64)
    has_session = np.asarray(sessions.is_valid())
    owners[has_session] = np.asarray(sessions.fill_null(0), dtype=np.int64)[has_session]
    return owners


def _shared_ids(blocks: pa.ListArray, owners: Numbers) -> Numbers:
    """Ids that rows of at least two owners hold."""
    ids = np.asarray(blocks.flatten().to_numpy(zero_copy_only=False)).astype(np.int64)
    counts = np.asarray(blocks.value_lengths().fill_null(0).to_numpy(zero_copy_only=False))
    owner_of = np.repeat(owners, counts)
    order = np.lexsort((owner_of, ids))
    ids, owner_of = ids[order], owner_of[order]
    is_change = (ids[1:] == ids[:-1]) & (owner_of[1:] != owner_of[:-1])
    return np.unique(ids[1:][is_change])


def _mixed(ids: Numbers, copies: Numbers) -> Numbers:
    """Other ids, far apart: the finaliser of SplitMix64 over id and copy."""
    bits = ids.view(np.uint64) + copies.astype(np.uint64) * _MIX
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Numbers = (bits ^ (bits >> np.uint64(31))).view(np.int64)
    return mixed
