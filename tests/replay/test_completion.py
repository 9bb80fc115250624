"""Every planned request has a record: what a lost worker may have sent is apart from what it cannot have."""

from __future__ import annotations

import numpy as np
import pytest

from loadgen.replay.completion import Loss, complete_records, fates_of
from loadgen.replay.request_record import SCHEMA
from support.runs import ok, records
from support.sending import schedule_table

PLANNED_NS = np.array([0, 10, 20, 30], dtype=np.int64)
OWNERS = np.array([0, 1, 0, 1], dtype=np.int64)


def outcomes(lost: dict[int, Loss]) -> list[str]:
    return [fate.outcome.value for fate in fates_of(PLANNED_NS, OWNERS, lost)]


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ({}, ["not_sent"] * 4),
        # It had ended at 20: what was due until then may have gone out.
        ({1: Loss("killed", 20)}, ["not_sent", "unrecorded", "not_sent", "not_sent"]),
        ({0: Loss("killed", 20)}, ["unrecorded", "not_sent", "unrecorded", "not_sent"]),
        # A node that is cut off may go on sending.
        ({1: Loss("cut off", None)}, ["not_sent", "unrecorded", "not_sent", "unrecorded"]),
        # Before the start nothing was sent.
        ({0: Loss("killed", -1), 1: Loss("killed", -1)}, ["not_sent"] * 4),
    ],
)
def test_what_was_due_before_a_worker_ended_is_unrecorded(lost: dict[int, Loss], expected: list[str]) -> None:
    assert outcomes(lost) == expected


def test_the_record_says_whose_share_it_was() -> None:
    fates = fates_of(PLANNED_NS, OWNERS, {1: Loss("its process died", 20)})
    assert fates[1].because == "worker 1 was lost (its process died); whether this was sent is not known"
    assert fates[3].because == "worker 1 was lost (its process died) before this was due"


def test_only_what_has_no_record_gets_one() -> None:
    table = schedule_table([0.0, 1.0, 2.0])
    told = records([ok(0.0, first_s=0.1, last_s=0.2)])
    planned_ns = np.asarray(table.column("planned_ns").to_numpy())
    fates = fates_of(planned_ns, np.zeros(3, np.int64), {0: Loss("killed", 1_500_000_000)})
    whole = complete_records(told, table, fates=fates)
    assert whole.schema == SCHEMA
    assert whole.column("outcome").to_pylist() == ["ok", "unrecorded", "not_sent"]
    assert whole.column("worker").to_pylist() == [0, -1, -1]
    assert whole.column("sent_ns").to_pylist()[1:] == [None, None]
