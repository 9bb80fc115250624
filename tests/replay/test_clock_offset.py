"""Offsets of other machines' clocks: bounds that hold whatever the network does, and stamps put right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.replay.clock_offset import ClockOffset, ClockReading, TrackedClock, offset_from
from support.runs import ok, records

WAYS = st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)), min_size=1, max_size=20)


def readings(offset_ns: int, ways: list[tuple[int, int]]) -> list[ClockReading]:
    """Questions a second apart; each way there and back as given."""
    return [
        ClockReading(at, at + there + offset_ns, at + there + back)
        for at, (there, back) in zip(range(0, 10**15, 10**9), ways, strict=False)
    ]


@pytest.mark.parametrize(
    ("ways", "least", "most"),
    [
        ([(100, 100)], 900, 1100),  # the middle is the truth
        ([(0, 200)], 800, 1000),  # all of the time on the way back: the truth is the upper bound
        ([(200, 0)], 1000, 1200),
        ([(500, 500), (30, 400), (600, 20)], 980, 1030),  # the fastest ways of different questions
    ],
)
def test_answers_bound_the_offset(ways: list[tuple[int, int]], least: int, most: int) -> None:
    assert offset_from(readings(1000, ways)) == ClockOffset(least, most)


@given(offset_ns=st.integers(-(10**18), 10**18), ways=WAYS)
def test_the_truth_lies_within_the_uncertainty_and_that_within_half_the_least_round_trip(
    offset_ns: int, ways: list[tuple[int, int]]
) -> None:
    found = offset_from(readings(offset_ns, ways))
    assert found.least_ns <= offset_ns <= found.most_ns
    assert abs(found.likely_ns - offset_ns) <= found.uncertainty_ns
    assert found.uncertainty_ns <= min((there + back + 1) // 2 for there, back in ways)


def test_of_readings_that_contradict_each_other_the_fastest_counts() -> None:
    stepped = [ClockReading(0, 1000, 20), ClockReading(100, 9100, 130)]
    assert offset_from(stepped) == ClockOffset(980, 1000)


@given(rate=st.floats(-1e-4, 1e-4), half_widths=st.lists(st.integers(1, 500_000), min_size=1, max_size=30))
def test_the_offset_in_use_stays_within_what_each_check_allows(rate: float, half_widths: list[int]) -> None:
    clock = TrackedClock(0, ClockOffset(-10, 10))
    for number, half_ns in enumerate(half_widths, start=1):
        at_ns = number * 5 * 10**9
        truth = round(rate * at_ns)
        clock.check(at_ns, ClockOffset(truth - half_ns, truth + half_ns))
        assert abs(clock.offset_ns - truth) <= half_ns
    assert clock.residual_ns <= max(half_widths)
    assert clock.drift_ns == clock.offset_ns


def test_checks_that_allow_the_offset_in_use_leave_it_and_the_stamps_alone() -> None:
    clock = TrackedClock(0, ClockOffset(90, 110))
    assert clock.start(5000) == 5100
    clock.check(10, ClockOffset(60, 120))
    (batch,) = records([ok(0.0, first_s=0.1, last_s=0.2)]).to_batches()
    assert clock.corrected(batch, 0) is batch
    assert (clock.drift_ns, clock.residual_ns) == (0, 10)


def test_stamps_of_a_clock_that_drifts_are_put_on_ours() -> None:
    start_ns, second = 10**12, 10**9
    clock = TrackedClock(start_ns, ClockOffset(0, 0))
    assert clock.start(start_ns) == start_ns
    clock.check(start_ns + 10 * second, ClockOffset(10_000_000, 10_000_000))  # 1 ms a second
    batch = (
        records([ok(2.0, first_s=4.0, last_s=8.0), {"planned_ns": 9 * second, "outcome": "not_sent"}])
        .combine_chunks()
        .to_batches()[0]
    )
    sent, not_sent = clock.corrected(batch, start_ns).to_pylist()
    assert (sent["planned_ns"], sent["sent_ns"]) == (2 * second, 2 * second - 2_000_000)
    assert (sent["first_token_ns"], sent["end_ns"]) == (4 * second - 4_000_000, 8 * second - 8_000_000)
    assert not_sent["sent_ns"] is None and not_sent["planned_ns"] == 9 * second
