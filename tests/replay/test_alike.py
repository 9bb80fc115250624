"""Events that are not read, since they are like one that was: never another record than reading would make."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.replay.alike import alike_of
from loadgen.replay.dialects import dialect_named
from loadgen.replay.exchange import Exchange

TEXTS = (b"content", b"reasoning")


def block(event: bytes) -> bytes:
    return b"data: " + event + b"\n\n"


def is_alike(learnt: bytes, other: bytes) -> bool:
    alike = alike_of(block(learnt), learnt, TEXTS)
    return alike is not None and alike.matches(block(other))


@pytest.mark.parametrize(
    "text", ["b", "a longer one", " ", "\\n", '\\"', "{}[]:,", "\u20ac\U0001f600", "\x7f"]
)
def test_another_text_is_alike(text: str) -> None:
    other = b'{"n":1,"delta":{"content":"%b"},"end":null}' % text.encode()
    json.loads(other)
    assert is_alike(b'{"n":1,"delta":{"content":"a"},"end":null}', other)


@pytest.mark.parametrize("text", [b"", b'"', b"\\", b'a","end":"stop', b"\x1f", b"\n", b"\xff", b"\xed\xa0\x80",
                                  b"\\x", b"\\ud800", b'\\"\\'])  # fmt: skip
def test_what_is_no_text_or_an_empty_one_is_not(text: bytes) -> None:
    assert not is_alike(
        b'{"delta":{"content":"a"},"end":null}', b'{"delta":{"content":"%b"},"end":null}' % text
    )


@pytest.mark.parametrize("other", [
    b'{"n":2,"delta":{"content":"a"},"end":null}',
    b'{"n":1,"delta":{"content":"a"},"end":"stop"}',
    b'{"n":1,"delta":{"content":"a"},"end":null}\n\ndata: {"n":1,"delta":{"content":"a"},"end":null}',
])  # fmt: skip
def test_what_differs_in_more_is_not(other: bytes) -> None:
    assert not is_alike(b'{"n":1,"delta":{"content":"a"},"end":null}', other)


@pytest.mark.parametrize("event", [
    b'{"content":"x","delta":{"content":"a"}}',  # which of the two is read is not known here
    b'{"key \\"content":"x"}',  # what looks like a key may stand in a text
    b'{"delta":{"content":["a"]}}',
    b'{"delta":{"content":""}}',
    b'{"delta":{"text":"a"}}',
])  # fmt: skip
def test_nothing_is_known_to_be_like_an_event_whose_text_is_not_plain(event: bytes) -> None:
    assert alike_of(block(event), event, TEXTS) is None


def events_of(texts: list[tuple[str, str, bool]]) -> list[bytes]:
    """Chat events: (key, text, is an oddity between)."""
    made = []
    for key, text, is_odd in texts:
        choice = {"index": 0, "delta": {key: text}, "finish_reason": None}
        made.append(json.dumps({"id": "x", "choices": [choice]}, ensure_ascii=len(text) % 2 == 0).encode())
        if is_odd:
            made.append(json.dumps({"choices": [], "usage": {"completion_tokens": len(made)}}).encode())
    return made


ODD_TEXTS = st.text(st.sampled_from('ab "\\\n\u2028\u20ac\U0001f600'), max_size=4)


@given(
    st.lists(
        st.tuples(st.sampled_from(["content", "reasoning", "role"]), ODD_TEXTS, st.booleans()), max_size=12
    ),
    st.data(),
)
def test_a_stream_tells_the_same_in_whole_events_as_in_one_piece(
    texts: list[tuple[str, str, bool]], data: st.DataObject
) -> None:
    # Events alone in a read may be known by their likeness; in one piece each is read.
    blocks = [block(event) for event in events_of(texts)]
    cuts = [data.draw(st.sampled_from([0, 0, 0, 1, 9, len(one) - 1])) for one in blocks]
    reads = [part for one, cut in zip(blocks, cuts, strict=True) for part in (one[:cut], one[cut:]) if part]
    told = []
    for way in (reads, [b"".join(blocks)] if blocks else []):
        made = Exchange(0, 0, dialect_named("chat"), stream=True)
        made.on_headers(200, {}, 1)
        for moment, read in enumerate(way, 2):
            made.on_body(read, moment)
        made.on_complete(99)
        told.append((
            len(made.token_ns), made.first_answer_token_ns is None, made.output_tokens, made.outcome, made.error,
        ))  # fmt: skip
    assert told[0] == told[1]


def test_each_event_alike_has_its_own_moment() -> None:
    made = Exchange(0, 0, dialect_named("chat"), stream=True)
    made.on_headers(200, {}, 1)
    for moment, event in enumerate(events_of([("content", "ab", False)] * 9), 2):
        made.on_body(block(event), moment)
    assert made.token_ns == list(range(2, 11))
    assert made.last_event_ns == 10
    assert made.num_coalesced == 0
