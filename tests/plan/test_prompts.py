"""Prompts have the planned length, differ from each other, and share exactly what the trace shares."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.plan.prompts import PromptMaker
from support.sending import schedule_table

MAKER = PromptMaker(seed=3)
BLOCKS = PromptMaker(seed=3, chars_per_token=1, prefix_block_tokens=32)


@given(st.integers(0, 2**40), st.integers(1, 5000))
def test_a_prompt_is_exactly_as_long_as_asked(key: int, length: int) -> None:
    text = MAKER.text(key, length)
    assert len(text) == len(text.encode()) == length


def test_a_prompt_longer_than_the_corpus_is_whole() -> None:
    assert len(MAKER.text(1, 3_000_000)) == 3_000_000


def test_prompts_differ_within_their_first_sixteen_characters() -> None:
    # No prefix cache helps by accident: neighbouring rows and copies, and blocks, all begin unlike.
    heads = {MAKER.text((row << 16) + copy, 100)[:16] for row in range(3000) for copy in range(3)}
    assert len(heads) == 9000


def test_a_prompt_depends_on_seed_and_request_only() -> None:
    assert PromptMaker(seed=3).text(77, 300) == MAKER.text(77, 300)
    assert PromptMaker(seed=4).text(77, 300) != MAKER.text(77, 300)


def test_a_prompt_holds_nothing_that_json_escapes() -> None:
    assert set(MAKER.text(5, 200_000)) <= set("abcdefghijklmnopqrstuvwxyz ")


def test_rows_share_the_text_of_their_common_blocks_and_no_more() -> None:
    first, second = BLOCKS.text(1, 100, [10, 11, 12]), BLOCKS.text(2, 100, [10, 11, 13])
    assert first[:64] == second[:64]
    assert first[64:80] != second[64:80]
    assert len(first) == len(second) == 100


def test_what_follows_the_blocks_is_each_rows_own() -> None:
    first, second = BLOCKS.text(1, 100, [10]), BLOCKS.text(2, 100, [10])
    assert first[:32] == second[:32]
    assert first[32:48] != second[32:48]


def test_a_last_block_that_is_not_full_is_cut_to_the_length() -> None:
    assert BLOCKS.text(1, 40, [10, 11]) == BLOCKS.text(2, 64, [10, 11])[:40]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"input_tokens": [8], "input_chars": [99], "input_bytes": [99]}, 32),
        ({"input_tokens": [None], "input_chars": [20], "input_bytes": [99]}, 20),
        ({"input_tokens": [None], "input_chars": [None], "input_bytes": [50]}, 50),
        ({"input_tokens": [None]}, 1),
        ({"input_tokens": [0]}, 1),
    ],
)
def test_the_length_is_taken_from_tokens_then_characters_then_bytes(
    columns: dict[str, list[int | None]], expected: int
) -> None:
    assert MAKER.lengths(schedule_table([0.0], **columns)).tolist() == [expected]
