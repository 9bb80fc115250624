"""The server's clock beside ours: found within what the exchanges leave open, and taken off where it differs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.report.clock_offset import ClockOffset, clock_offset
from loadgen.report.figures import Distribution, Missing
from loadgen.report.observations import Observations
from loadgen.report.stages import receipt_lateness
from support.runs import Row, failed, ns, ok, records

START = 1_796_083_200_000_000_000


def exchange(at_s: float, there_s: float, back_s: float, offset_s: float) -> Row:
    """Sent on time; so long there, 100 ms in the server, so long back."""
    end_s = at_s + there_s + 0.1 + back_s
    received_ns = START + ns(at_s) + ns(there_s) + ns(offset_s)
    return ok(
        at_s, first_s=end_s - 0.05, last_s=end_s, server_recv_unix_ns=received_ns, server_finished_us=100_000
    )


def found(rows: Sequence[Row]) -> ClockOffset:
    offset = clock_offset(Observations(records(rows)), START)
    assert isinstance(offset, ClockOffset)
    return offset


def test_an_even_way_gives_the_offset_and_half_of_it_the_residual() -> None:
    offset = found([exchange(k, 0.002, 0.002, 3.5) for k in range(10)])
    assert offset.offset_s == pytest.approx(3.5, abs=1e-6)
    assert offset.residual_s == pytest.approx(0.002, abs=1e-6)


def test_the_quickest_exchanges_decide() -> None:
    rows = [exchange(k / 10, 0.5, 0.0, -0.25) for k in range(19)] + [exchange(3, 0.001, 0.001, -0.25)]
    offset = found(rows)
    assert offset.num_exchanges == 1
    assert offset.offset_s == pytest.approx(-0.25, abs=1e-6)


@given(
    st.lists(st.tuples(st.floats(0, 0.2), st.floats(0, 0.2)), min_size=1, max_size=19), st.floats(-100, 100)
)
def test_the_truth_is_within_the_residual(ways: list[tuple[float, float]], offset_s: float) -> None:
    offset = found([exchange(k, there_s, back_s, offset_s) for k, (there_s, back_s) in enumerate(ways)])
    assert abs(offset.offset_s - offset_s) <= offset.residual_s + 1e-6


def test_a_clock_that_is_off_is_taken_off_the_lateness_that_the_server_saw() -> None:
    seen = Observations(records([exchange(k, 0.002, 0.002, 3.5) for k in range(10)]))
    late = receipt_lateness(seen, START)
    assert isinstance(late, Distribution)
    assert late.p50 == pytest.approx(0.002, abs=1e-6)


def test_without_a_receipt_there_is_none_and_why() -> None:
    for rows in ([ok(0, first_s=0.1, last_s=0.2)], [failed(0, "rejected", end_s=0.1)]):
        offset = clock_offset(Observations(records(rows)), START)
        assert isinstance(offset, Missing)
        assert offset.reason == "the server does not tell when it had a request"
