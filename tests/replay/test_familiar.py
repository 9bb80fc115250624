"""Events that are known from earlier streams: never another record than reading would make."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.replay.dialects import dialect_named
from loadgen.replay.dialects.dialect import TOLD_ANSWER, TOLD_NOTHING, Told
from loadgen.replay.exchange import Exchange
from loadgen.replay.familiar import Familiar

USAGE = {"prompt_tokens": 3, "completion_tokens": 5}


def block(event: bytes) -> bytes:
    return b"data: " + event + b"\n\n"


def chat(stream_id: str, delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    document = {"id": stream_id, "choices": [choice], **more}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


EVENTS = st.tuples(
    st.sampled_from(["a", "b-1", "", "with space", 'quo"te', "back\\slash", "\u20ac"]),
    st.sampled_from(
        [{"content": "x"}, {"content": "other"}, {"content": ""}, {"role": "assistant"}, {"reasoning": "x"}]
    ),
    st.sampled_from([None, "stop"]),
    st.sampled_from([{}, {"usage": USAGE}, {"error": {"message": "no"}}, {"created": 1}]),
)


def record(blocks: list[bytes], familiar: Familiar | None) -> tuple[Any, ...]:
    made = Exchange(0, 0, dialect_named("chat"), stream=True, familiar=familiar)
    made.on_headers(200, {}, 1)
    for moment, read in enumerate(blocks, 2):
        made.on_body(read, moment)
    made.on_complete(99)
    return (
        made.token_ns, made.first_answer_token_ns, made.finish_reason, made.prompt_tokens, made.output_tokens,
        made.outcome, made.error,
    )  # fmt: skip


@given(st.lists(st.lists(EVENTS, max_size=8), min_size=2, max_size=6))
def test_a_stream_makes_the_same_record_whatever_came_before_it(streams: list[list[Any]]) -> None:
    familiar = Familiar()
    for events in streams:
        blocks = [block(chat(name, delta, finish, **more)) for name, delta, finish, more in events]
        assert record(blocks, familiar) == record(blocks, None)


def counting(familiar: Familiar, event: bytes, name: bytes = b"") -> tuple[Told, int]:
    """What is told of an event, and how often it had to be read for that."""
    num_reads = 0

    def read(name: bytes, event: bytes) -> Told:
        nonlocal num_reads
        num_reads += 1
        return dialect_named("chat").reader().event(name, event)

    return familiar.told(read, name, event), num_reads


def test_an_event_that_differs_in_its_id_alone_is_not_read_again() -> None:
    familiar = Familiar()
    role = {"role": "assistant", "content": ""}
    assert counting(familiar, chat("a", role)) == (TOLD_NOTHING, 1)
    assert counting(familiar, chat("bcd", role)) == (TOLD_NOTHING, 0)
    assert counting(familiar, chat("bcd", {"content": "x"})) == (TOLD_ANSWER, 1)


@pytest.mark.parametrize("event", [
    b'{"choices":[{"delta":{"content":"x"}}]}',  # no id
    b'{"id":"quo\\"te","choices":[{"delta":{"content":"x"}}]}',
    b'{"id":"unended',
    chat("a", {}, error={"message": "no room for a"}),
])  # fmt: skip
def test_an_event_without_a_plain_id_or_with_an_error_is_read_each_time(event: bytes) -> None:
    familiar = Familiar()
    first, second = counting(familiar, event), counting(familiar, event)
    assert first == second
    assert second[1] == 1


def test_an_event_with_a_name_is_read() -> None:
    familiar = Familiar()
    counting(familiar, chat("a", {"content": "x"}))
    told, num_reads = counting(familiar, chat("a", {"content": "x"}), b"error")
    assert (told.error is not None, num_reads) == (True, 1)


def test_the_like_of_a_block_is_known_from_an_earlier_stream() -> None:
    familiar = Familiar()
    first, second = chat("a", {"content": "x"}), chat("bb", {"content": "yy"})
    familiar.alike_of(block(first), first, (b"content",))
    alike = familiar.alike_of(block(second), second, ())  # no name is given: it cannot be found anew
    assert alike is not None
    assert alike.matches(block(chat("bb", {"content": "z"})))
    assert not alike.matches(block(chat("a", {"content": "z"})))


@pytest.mark.parametrize("event", [
    chat("bb", {"kontent": "yy"}),
    chat("bb", {"content": "yy"}, "stop"),
    chat("bb", {"content": 'y"y'}),
    chat("bb", {"content": ""}),
    chat('b"b', {"content": "yy"}),
    chat("bb", {"content": "yy"})[1:],
    chat("bb", {"content": "yy"}).replace(b"null", b"true"),
    chat("bb", {"content": "yy"}).replace(b'"bb"', b'"bb\\"'),
])  # fmt: skip
def test_a_block_that_differs_in_more_than_id_and_text_is_none_of_the_earlier_ones(event: bytes) -> None:
    familiar = Familiar()
    first = chat("a", {"content": "x"})
    familiar.alike_of(block(first), first, (b"content",))
    assert familiar.alike_of(block(event), event, ()) is None


def test_an_id_that_is_too_long_to_be_looked_through_is_read() -> None:
    familiar = Familiar()
    for content, told in (("", TOLD_NOTHING), ("x", TOLD_ANSWER)):
        assert counting(familiar, chat("a" * 5000, {"content": content})) == (told, 1)


def test_events_that_never_come_again_are_not_hoarded() -> None:
    familiar = Familiar()
    for number in range(1000):
        counting(familiar, chat("a", {"content": "x"}, created=number))
    assert counting(familiar, chat("a", {"content": "x"}, created=0))[1] == 1
