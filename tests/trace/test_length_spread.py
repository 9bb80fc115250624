"""Lengths over common bins: each request once, input beside output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.trace.length_spread import length_spreads
from support.traces import trace_of


def test_both_sides_share_bins_in_equal_ratios() -> None:
    found = length_spreads(trace_of([0, 1, 2, 3], input_tokens=[8, 15, 16, 100], output_tokens=[4, 4, 4, 31]))
    assert found is not None
    assert found.bounds == (4, 8, 16, 32, 64, 128)
    assert [(side.column, side.shares) for side in found.sides] == [
        ("input_tokens", (0, 0.5, 0.25, 0, 0.25)),
        ("output_tokens", (0.75, 0, 0.25, 0, 0)),
    ]


def test_shares_are_of_the_requests_whose_length_is_known() -> None:
    found = length_spreads(trace_of([0, 1, 2], input_tokens=[None, 1, 2], output_tokens=[None] * 3))
    assert found is not None
    assert [(side.column, side.shares) for side in found.sides] == [("input_tokens", (0.5, 0.5))]


def test_a_length_of_nothing_is_in_a_bin_of_its_own() -> None:
    found = length_spreads(trace_of([0, 1], input_tokens=[0, 1], output_tokens=[0, 0]))
    assert found is not None
    assert found.bounds == (0, 1, 2)
    assert [side.shares for side in found.sides] == [(0.5, 0.5), (1, 0)]


def test_each_side_is_the_first_unit_that_is_known() -> None:
    found = length_spreads(
        trace_of([0, 1], input_tokens=[None] * 2, input_chars=[9, 9], input_bytes=[9, 9], output_bytes=[2, 3])
    )
    assert found is not None
    assert [side.column for side in found.sides] == ["input_chars", "output_tokens"]


def test_a_trace_of_arrivals_alone_has_none() -> None:
    assert length_spreads(trace_of([0, 1], input_tokens=[None] * 2, output_tokens=[None] * 2)) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1) | st.none()), min_size=1, max_size=20
    )
)
def test_any_lengths_fill_few_bins_with_every_request(pairs: list[tuple[int, int | None]]) -> None:
    trace = trace_of(
        [0.0] * len(pairs),
        input_tokens=[pair[0] for pair in pairs],
        output_tokens=[pair[1] for pair in pairs],
    )
    found = length_spreads(trace)
    assert found is not None
    assert len(found.bounds) <= 15
    assert list(found.bounds) == sorted(set(found.bounds))
    for side in found.sides:
        assert sum(side.shares) == pytest.approx(1)
