"""Policies as tables: the time, what waits, what runs, and the answer."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen_target.config import PolicyConfig
from loadgen_target.policies import (
    Admit,
    BatchPolicy,
    Continuous,
    Dynamic,
    FixedWindow,
    Serial,
    Wait,
    make_policy,
)

MS = 1_000_000


@dataclass(frozen=True)
class Queued:
    enqueued_ns: int
    num_prompt_tokens: int = 16


@dataclass(frozen=True)
class Place:
    num_rows: int = 0
    idle_since_ns: int = 0
    num_unread_tokens: int = 0


def queued(*moments_ms: float) -> list[Queued]:
    return [Queued(round(moment * MS)) for moment in moments_ms]


SERIAL = Serial()
WINDOW = FixedWindow(max_batch_size=8, window_ns=100 * MS)
DYNAMIC = Dynamic(max_batch_size=8, max_wait_ns=150 * MS)
CONTINUOUS = Continuous(max_batch_size=8, max_num_batched_tokens=64)
SPLITTING = Continuous(max_batch_size=8, max_num_batched_tokens=64, splits_prompts=True)
IDLE, ALONE = Place(), Place(num_rows=1)


@pytest.mark.parametrize(
    ("policy", "now_ms", "waiting", "place", "answer"),
    [
        pytest.param(SERIAL, 0, queued(), IDLE, Wait(), id="serial: nothing waits"),
        pytest.param(SERIAL, 5, queued(1, 2, 3), IDLE, Admit(0, 1), id="serial: never more than one"),
        pytest.param(SERIAL, 5, queued(1), ALONE, Wait(), id="serial: not beside another"),
        pytest.param(WINDOW, 130, queued(130), IDLE, Wait(200 * MS), id="window: until the next tick"),
        pytest.param(WINDOW, 199.9, queued(130, 150), IDLE, Wait(200 * MS), id="window: not before it"),
        pytest.param(WINDOW, 200, queued(130, 150, 199), IDLE, Admit(0, 3), id="window: all that wait"),
        pytest.param(WINDOW, 200, queued(*[101] * 20), IDLE, Admit(0, 8), id="window: up to a full batch"),
        pytest.param(
            WINDOW, 300, queued(101, 190, 290), IDLE, Admit(0, 3), id="window: older than it all the same"
        ),
        pytest.param(WINDOW, 200, queued(130), ALONE, Wait(), id="window: not beside a batch"),
        pytest.param(
            WINDOW,
            210,
            queued(130),
            Place(idle_since_ns=205 * MS),
            Wait(300 * MS),
            id="window: a tick that finds the engine busy is lost",
        ),
        pytest.param(DYNAMIC, 10, queued(0), IDLE, Wait(150 * MS), id="dynamic: until the first has waited"),
        pytest.param(DYNAMIC, 149.999, queued(0, 9), IDLE, Wait(150 * MS), id="dynamic: not before"),
        pytest.param(DYNAMIC, 150, queued(0, 9), IDLE, Admit(0, 2), id="dynamic: exactly then"),
        pytest.param(DYNAMIC, 7, queued(*range(8)), IDLE, Admit(0, 8), id="dynamic: at once when full"),
        pytest.param(DYNAMIC, 7, queued(*[7] * 11), IDLE, Admit(0, 8), id="dynamic: never above full"),
        pytest.param(DYNAMIC, 900, queued(*[7] * 8), ALONE, Wait(), id="dynamic: not beside a batch"),
        pytest.param(CONTINUOUS, 3, queued(1, 2), IDLE, Admit(0, 2), id="continuous: at once"),
        pytest.param(CONTINUOUS, 3, queued(1), Place(7), Admit(0, 1), id="continuous: joins what runs"),
        pytest.param(CONTINUOUS, 3, queued(1), Place(8), Wait(), id="continuous: not above its rows"),
        pytest.param(CONTINUOUS, 3, queued(*[1] * 8), IDLE, Admit(0, 4), id="continuous: within the tokens"),
        pytest.param(
            CONTINUOUS,
            3,
            queued(*[1] * 8),
            Place(2),
            Admit(0, 3),
            id="continuous: running rows cost one each",
        ),
        pytest.param(
            CONTINUOUS,
            3,
            [Queued(1, 900), Queued(2)],
            IDLE,
            Admit(0, 1),
            id="continuous: the head always fits",
        ),
        pytest.param(SPLITTING, 3, queued(*[1] * 8), IDLE, Admit(0, 4), id="chunked: within the tokens"),
        pytest.param(
            SPLITTING,
            3,
            [Queued(1, 60), Queued(2, 900), Queued(3)],
            IDLE,
            Admit(0, 2),
            id="chunked: a part fits",
        ),
        pytest.param(SPLITTING, 3, queued(1), Place(8), Wait(), id="chunked: not above its rows"),
        pytest.param(
            SPLITTING,
            3,
            queued(1),
            Place(3, num_unread_tokens=62),
            Wait(),
            id="chunked: behind one that reads",
        ),
        pytest.param(
            SPLITTING,
            3,
            queued(1, 2),
            Place(3, num_unread_tokens=61),
            Admit(0, 1),
            id="chunked: the last token that is left",
        ),
    ],
)
def test_a_policy_answers(
    policy: BatchPolicy, now_ms: float, waiting: list[Queued], place: Place, answer: Admit | Wait
) -> None:
    assert policy.decide(waiting, [place], round(now_ms * MS)) == answer


def test_a_second_batch_starts_beside_the_first_where_two_may_be_in_flight() -> None:
    assert DYNAMIC.decide(queued(*[0] * 8), [ALONE, IDLE], 1) == Admit(group=1, count=8)
    assert DYNAMIC.decide(queued(*[0] * 8), [ALONE, ALONE], 1) == Wait()


@pytest.mark.parametrize("name", ["serial", "fixed-window", "dynamic", "continuous", "chunked"])
@given(
    moments=st.lists(st.integers(0, 10**9), max_size=20).map(sorted),
    num_rows=st.integers(0, 8),
    idle_since_ns=st.integers(0, 10**9),
    later_ns=st.integers(0, 10**9),
)
def test_a_wait_never_ends_in_the_past_and_an_admission_fits(
    name: str, moments: list[int], num_rows: int, idle_since_ns: int, later_ns: int
) -> None:
    splits = name == "chunked"
    config = PolicyConfig(name="continuous" if splits else name, splits_prompts=splits)  # type: ignore[arg-type]
    now_ns = max([idle_since_ns, *moments]) + later_ns
    place = Place(min(num_rows, config.batch_rows), idle_since_ns)
    waiting = [Queued(moment) for moment in moments]
    decision = make_policy(config).decide(waiting, [place], now_ns)
    if isinstance(decision, Admit):
        assert 1 <= decision.count <= min(len(waiting), config.batch_rows - place.num_rows)
    elif decision.until_ns is not None:
        assert decision.until_ns > now_ns
        # Asked again at the very moment it named, with nothing changed, it admits: an engine never spins.
        assert isinstance(make_policy(config).decide(waiting, [place], decision.until_ns), Admit)


@given(enqueued_ns=st.integers(0, 10**12))
def test_a_lone_request_waits_one_window_at_most(enqueued_ns: int) -> None:
    decision = WINDOW.decide([Queued(enqueued_ns)], [IDLE], enqueued_ns)
    if isinstance(decision, Wait):
        assert decision.until_ns is not None
        assert enqueued_ns < decision.until_ns <= enqueued_ns + WINDOW.window_ns
