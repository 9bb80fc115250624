"""Rows come back in order of arrival, however many were put on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import RecordError
from loadgen.record.request_batch import RequestBatch
from loadgen.record.request_store import ARRIVAL, SESSION_KEY, RequestStore

ROW = st.tuples(
    st.integers(0, 30),
    st.none() | st.integers(0, 9),
    st.none() | st.sampled_from(["a", "b"]),
    st.none() | st.sampled_from(["s1", "s2", ""]),
    st.none() | st.lists(st.integers(0, 5), max_size=2),
)
# Batches of rows, and which columns each batch has.
BATCHES = st.lists(st.tuples(st.lists(ROW, max_size=8), st.sets(st.sampled_from(range(1, 5)))), max_size=8)
COLUMNS = ("arrival", "input_tokens", "model", "session", "prefix_blocks")


def batch_of(rows: list[tuple[Any, ...]], columns: set[int]) -> RequestBatch:
    return RequestBatch(
        np.array([row[0] for row in rows], dtype=np.int64),
        {COLUMNS[place]: [row[place] for row in rows] for place in columns},
    )


def rows_of(store: RequestStore) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for part in store.sorted_parts():
        columns = {name: part.column(name).to_pylist() for name in part.schema.names}
        for index in range(part.num_rows):
            found = {name: values[index] for name, values in columns.items()}
            rows.append(
                (found[ARRIVAL], found.get("input_tokens"), found.get("model"), found.get("prefix_blocks"),
                 found.get(SESSION_KEY))
            )  # fmt: skip
    return rows


@given(BATCHES, st.integers(1, 6))
@settings(max_examples=150, deadline=None)
def test_the_order_is_that_of_a_stable_sort(batches: list[tuple[list[Any], set[int]]], run_rows: int) -> None:
    store = RequestStore(b"salt", run_rows=run_rows)
    expected: list[tuple[Any, ...]] = []
    sessions: list[str | None] = []
    for rows, columns in batches:
        store.add(batch_of(rows, columns))
        for row in rows:
            shown = [row[place] if place in columns else None for place in range(5)]
            expected.append((row[0], shown[1], shown[2], shown[4]))
            sessions.append(shown[3] or None)
        # Asked for in between, as a recording that goes on does.
        assert len(rows_of(store)) == store.num_rows == len(expected)
    order = sorted(range(len(expected)), key=lambda row: expected[row][0])
    found = rows_of(store)
    assert [row[:4] for row in found] == [expected[row] for row in order]
    # Equal ids have equal keys, others have others, none has none.
    keys: dict[str | None, Any] = {}
    for row, key in zip(order, (row[4] for row in found), strict=True):
        assert keys.setdefault(sessions[row], key) == key
    assert len(set(keys.values())) == len(keys)
    assert keys.get(None) is None
    store.close()


def test_another_salt_gives_other_keys() -> None:
    found = []
    for salt in (b"one", b"two"):
        store = RequestStore(salt)
        store.add(batch_of([(1, None, None, "alice", None)], {3}))
        found.append(rows_of(store)[0][4])
    assert found[0] != found[1]


def test_what_is_put_on_disk_has_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So nothing is left behind by a recorder that is killed."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    store = RequestStore(b"salt", run_rows=2)
    for moment in range(5):
        store.add(batch_of([(moment, 1, None, None, None)], {1}))
    assert [row[0] for row in rows_of(store)] == [0, 1, 2, 3, 4]
    assert list(tmp_path.iterdir()) == []
    store.close()


def test_a_full_disk_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    store = RequestStore(b"salt", run_rows=1)
    with pytest.raises(RecordError, match="cannot be put aside") as caught:
        store.add(batch_of([(1, 1, None, None, None)], {1}))
    assert caught.value.hint is not None and "TMPDIR" in caught.value.hint


def test_a_value_that_does_not_fit_is_told() -> None:
    with pytest.raises(RecordError, match="column input_tokens"):
        RequestStore(b"salt").add(RequestBatch(np.array([1]), {"input_tokens": pa.array([2**40])}))
