"""Which sizes of a decode step are captured, and which of them a step is rounded up to."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from loadgen_target.graphs import lengths_up_to, row_sizes_of


@pytest.mark.parametrize(
    ("batch_rows", "asked", "sizes"),
    [
        (1, None, (1,)),
        (8, None, (1, 2, 4, 8)),
        (12, None, (1, 2, 4, 8, 12)),
        (8, [8, 2, 2], (2, 8)),
        (8, [4, 64], (4,)),
    ],
)
def test_rows_are_those_asked_for_that_fit_else_powers_of_two_and_the_full_batch(
    batch_rows: int, asked: Sequence[int] | None, sizes: tuple[int, ...]
) -> None:
    assert row_sizes_of(batch_rows, asked) == sizes


@pytest.mark.parametrize(
    ("max_len", "lengths"),
    [(100, (100,)), (256, (256,)), (512, (256, 512)), (600, (256, 512, 600)), (1024, (256, 512, 1024))],
)
def test_lengths_double_from_256_and_end_with_the_longest(max_len: int, lengths: tuple[int, ...]) -> None:
    assert lengths_up_to(max_len) == lengths
