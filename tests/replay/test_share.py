"""Shares of a schedule: together the whole, each in order, sessions in one piece."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.replay.share import owners_of, shares_of
from support.sending import schedule_table


@given(
    sessions=st.lists(st.none() | st.integers(0, 5), min_size=1, max_size=40), num_workers=st.integers(1, 9)
)
def test_shares_make_the_whole_in_order_with_sessions_in_one_piece(
    sessions: list[int | None], num_workers: int
) -> None:
    table = schedule_table([k / 10 for k in range(len(sessions))], session=sessions)
    shares = shares_of(table, num_workers)
    rows = [share.column("trace_row").to_pylist() for share in shares]
    assert len(shares) == num_workers
    assert sorted(row for of_one in rows for row in of_one) == list(range(len(sessions)))
    assert all(of_one == sorted(of_one) for of_one in rows)
    owners = owners_of(table, num_workers).tolist()
    assert all(owners[row] == worker for worker, of_one in enumerate(rows) for row in of_one)
    for session in {session for session in sessions if session is not None}:
        assert sum(session in share.column("session").to_pylist() for share in shares) == 1


@pytest.mark.parametrize("num_workers", [1, 2, 20])
def test_a_share_is_sent_without_the_rest(num_workers: int) -> None:
    table = schedule_table([k / 10 for k in range(4000)])
    sizes = [len(pickle.dumps(share)) for share in shares_of(table, num_workers)]
    assert max(sizes) < 1.2 * len(pickle.dumps(table)) / num_workers + 4000
