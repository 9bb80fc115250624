"""What prompts have in common, without a word of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import RecordError
from loadgen.record.prefix_blocks import BLOCK_TOKENS, PrefixBlocks
from loadgen.record.recorder import record_logs
from loadgen.record.settings import RecordSettings
from loadgen.trace.trace import Trace

BLOCKS = PrefixBlocks(b"salt")
CHARS = 64


def num_shared(one: list[int], other: list[int]) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


@given(st.text(max_size=300), st.text(max_size=200), st.text(max_size=200))
def test_texts_share_the_blocks_before_their_first_difference(start: str, one: str, other: str) -> None:
    first, second = start + one, start + other
    ids, others = BLOCKS.of(first), BLOCKS.of(second)
    assert ids is not None and others is not None
    assert len(ids) == -(-len(first) // CHARS)
    parts = [[text[at : at + CHARS] for at in range(0, len(text), CHARS)] for text in (first, second)]
    expected = next((n for n, (a, b) in enumerate(zip(*parts, strict=False)) if a != b), min(map(len, parts)))
    assert num_shared(ids, others) == expected
    assert all(0 <= block < 2**63 for block in ids)


@given(
    st.lists(st.integers(0, 200_000), max_size=60), st.lists(st.integers(0, 200_000), min_size=1, max_size=20)
)
def test_token_ids_share_whole_blocks(start: list[int], rest: list[int]) -> None:
    ids, longer = BLOCKS.of_token_ids(start), BLOCKS.of_token_ids(start + rest)
    assert num_shared(ids, longer) == len(start) // BLOCK_TOKENS
    assert len(longer) == -(-len(start + rest) // BLOCK_TOKENS)


def test_an_equal_block_after_another_one_has_another_id() -> None:
    ids = BLOCKS.of("a" * CHARS * 3)
    assert ids is not None and len(set(ids)) == 3


def test_another_salt_shares_nothing() -> None:
    ids, others = BLOCKS.of("x" * 500), PrefixBlocks(b"other").of("x" * 500)
    assert ids is not None and others is not None and not set(ids) & set(others)


@pytest.mark.parametrize("prompt", [None, 5, {}, []])
def test_what_is_no_prompt_has_no_blocks(prompt: Any) -> None:
    assert BLOCKS.of(prompt) is None


def test_messages_share_their_beginning_in_any_spelling_of_parts() -> None:
    system = {"role": "system", "content": "You are helpful. " * 20}
    one = BLOCKS.of([system, {"role": "user", "content": "Hello"}])
    other = BLOCKS.of(
        [
            {"role": "system", "content": [{"type": "text", "text": system["content"]}]},
            {"role": "user", "content": "Bye"},
        ]
    )
    assert one is not None and other is not None
    assert num_shared(one, other) >= 4
    # Another role is another prompt, from its first block on.
    changed = BLOCKS.of([{**system, "role": "user"}])
    assert changed is not None and num_shared(one, changed) == 0


def record(folder: Path, rows: list[dict[str, Any]], format_name: str, **options: Any) -> Trace:
    path = folder / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return record_logs([path], format_name, RecordSettings(prefix_salt=b"salt", **options)).trace


TEXT = "The same beginning of a prompt, which is long enough to fill a block of its own, and more. "


NAMED = {"time_field": "t", "length_fields": {"input_tokens": "in"}, "prompt_field": "p"}
MESSAGES = [{"role": "user", "content": TEXT}]
LITELLM = {
    "startTime": 1_700_000_000.5,
    "endTime": 1_700_000_001.5,
    "prompt_tokens": 3,
    "completion_tokens": 2,
}
LANGFUSE = {"type": "GENERATION", "start_time": "2026-10-25 00:59:58.2", "usage_details": {"input": 3}}


@pytest.mark.parametrize(
    ("format_name", "row", "options"),
    [
        ("jsonl", {"t": 1_700_000_000, "in": 5, "p": TEXT}, NAMED),
        ("jsonl", {"t": 1_700_000_000, "in": 5, "p": MESSAGES}, NAMED),
        ("litellm", {**LITELLM, "messages": MESSAGES}, {}),
        ("langfuse", {**LANGFUSE, "input": TEXT}, {}),
        ("openai-pairs", {"ts": 1_700_000_000, "request": {"messages": MESSAGES}, "response": {}}, {}),
    ],
)
def test_formats_that_hold_prompts(
    tmp_path: Path, format_name: str, row: dict[str, Any], options: dict[str, Any]
) -> None:
    other = json.loads(json.dumps(row).replace("and more. ", "and less."))
    trace = record(tmp_path, [row, row, other], format_name, **options)
    ids = trace.table.column("prefix_blocks").to_pylist()
    assert ids[0] == ids[1] != ids[2]
    assert num_shared(ids[0], ids[2]) == 1
    assert trace.metadata.prefix_block_tokens == BLOCK_TOKENS
    assert "salt" not in str(trace.metadata)
    assert "beginning" not in str(trace.table.to_pylist()) + str(trace.metadata)


def test_vllm_keeps_blocks_of_its_token_ids(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log"
    text = (
        "INFO 10-25 00:59:58 [logger.py:42] Received request {}: prompt: 'p', params: SamplingParams(), "
        "prompt_token_ids: {}, prompt_embeds shape: None.\n"
    )
    path.write_text(
        text.format("a", list(range(40))) + text.format("b", [*range(20), 7, 7]), encoding="utf-8"
    )
    trace = record_logs([path], "vllm", RecordSettings(prefix_salt=b"salt", year=2026, zone="UTC")).trace
    one, other = trace.table.column("prefix_blocks").to_pylist()
    assert (len(one), len(other), num_shared(one, other)) == (3, 2, 1)


def test_a_log_without_prompts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="holds no prompts"):
        record(
            tmp_path,
            [{"t": 1_700_000_000, "in": 1}],
            "jsonl",
            time_field="t",
            length_fields={"input_tokens": "in"},
        )
