"""Bodies that other clients send, and those that cannot be served."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loadgen_target.openai import Asked, BadRequest, Kind, parse_request

USER = {"role": "user", "content": "hello"}


def parsed(kind: Kind, **fields: Any) -> Asked:
    return parse_request(kind, json.dumps(fields).encode(), max_model_len=100, default_seed=7)


@pytest.mark.parametrize(
    ("kind", "fields", "prompt", "num_tokens"),
    [
        ("text", {"prompt": "hello"}, "hello", 5),
        ("text", {"prompt": ["hello"]}, "hello", 5),
        ("text", {"prompt": [104, 105, 256]}, (104, 105, 256), 3),
        ("text", {"prompt": [[104, 105]]}, (104, 105), 2),
        ("text", {"prompt": "\u00e9\U0001f600"}, "\u00e9\U0001f600", 6),
        ("text", {"prompt": ""}, "", 1),  # a lone BOS
        ("chat", {"messages": [USER]}, "hello", 5),
        ("chat", {"messages": [{"role": "system", "content": "be"}, USER]}, "be\nhello", 8),
        ("chat", {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}, "hi", 2),
        (
            "chat",
            {"messages": [{"role": "assistant", "content": None, "tool_calls": []}, USER]},
            "\nhello",
            6,
        ),
    ],
)
def test_a_prompt_in_any_usual_form(
    kind: Kind, fields: dict[str, Any], prompt: object, num_tokens: int
) -> None:
    asked = parsed(kind, **fields)
    assert (asked.prompt, asked.num_prompt_tokens) == (prompt, num_tokens)


def test_a_body_of_a_benchmark_with_fields_that_are_not_known() -> None:
    asked = parsed(
        "text",
        model="any",
        prompt="hello",
        max_tokens=9,
        logprobs=None,
        repetition_penalty=1.0,
        ignore_eos=True,
        stop=None,
        stream=True,
        stream_options={"include_usage": True, "continuous_usage_stats": True},
    )
    assert asked.sampling.max_tokens == 9
    assert asked.sampling.ignore_eos and asked.is_stream and asked.includes_usage
    assert asked.sampling.stops == () and asked.sampling.temperature == 0.0
    assert asked.sampling.seed == 7


@pytest.mark.parametrize(
    ("stop", "stops"),
    [
        (None, ()),
        ("end", (b"end",)),
        (["a", "\u00e9"], (b"a", b"\xc3\xa9")),
        ("", ()),  # it would end every answer before it begins
        (["", "b"], (b"b",)),
    ],
)
def test_stop_texts_are_bytes_and_an_empty_one_is_none(stop: Any, stops: tuple[bytes, ...]) -> None:
    assert parsed("text", prompt="hello", stop=stop).sampling.stops == stops


@pytest.mark.parametrize(
    ("fields", "max_tokens"),
    [
        ({}, 95),
        ({"max_tokens": 3}, 3),
        ({"max_tokens": 3, "max_completion_tokens": 4}, 4),
        ({"max_tokens": 95}, 95),
    ],
)
def test_the_length_of_an_answer(fields: dict[str, Any], max_tokens: int) -> None:
    assert parsed("chat", messages=[USER], **fields).sampling.max_tokens == max_tokens


def test_a_completion_without_a_length_has_16_tokens() -> None:
    assert parsed("text", prompt="hello").sampling.max_tokens == 16


@pytest.mark.parametrize(
    ("kind", "fields", "said"),
    [
        ("text", {}, "prompt is neither"),
        ("text", {"prompt": []}, "prompt is neither"),
        ("text", {"prompt": ["a", "b"]}, "2 texts"),
        ("text", {"prompt": [1, 259]}, "259, which is no token id of 0..258"),
        ("text", {"prompt": [True]}, "no token id"),
        ("text", {"prompt": "a", "n": 2}, "n is 2"),
        ("text", {"prompt": "a", "best_of": 2}, "best_of is 2"),
        ("text", {"prompt": "a", "echo": True}, "echo is not supported"),
        ("text", {"prompt": "a", "max_tokens": 0}, "max_tokens is 0"),
        ("text", {"prompt": "a", "max_tokens": "9"}, "max_tokens is '9'"),
        ("text", {"prompt": "a" * 50, "max_tokens": 51}, "50 prompt tokens + 51 max_tokens = 101"),
        ("text", {"prompt": "a" * 100}, "100 prompt tokens"),
        ("text", {"prompt": "a", "max_tokens": 2, "min_tokens": 3}, "min_tokens is 3, above max_tokens 2"),
        ("text", {"prompt": "a", "stop": 5}, "stop is neither"),
        ("text", {"prompt": "a", "temperature": -1}, "temperature is -1"),
        ("chat", {"messages": []}, "messages is not a list"),
        ("chat", {"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
        ("chat", {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "not text"),
        ("chat", {"messages": [USER], "tools": [{}]}, "tools is not supported"),
    ],
)
def test_a_body_that_cannot_be_served_is_refused_with_its_value(
    kind: Kind, fields: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        parsed(kind, **fields)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("prompt", "answer", "said"),
    [
        (100, 100, None),
        (200, 56, None),
        (200, 57, "200 prompt tokens + 57 max_tokens = 257, more than the model length of 256"),
        (200, 100, "200 prompt tokens + 100 max_tokens = 300, more than the model length of 256"),
        (300, 1, "300 prompt tokens + 1 max_tokens = 301, more than the model length of 256"),
        (256, 0, "max_tokens is 0"),
    ],
)
def test_what_is_longer_than_a_slot_of_the_cache_is_refused_with_the_numbers(
    prompt: int, answer: int, said: str | None
) -> None:
    # F71: refused before the stream, with the numbers.
    body = json.dumps({"prompt": "x" * prompt, "max_tokens": answer}).encode()
    if said is None:
        assert parse_request("text", body, max_model_len=256, default_seed=0).num_prompt_tokens == prompt
    else:
        with pytest.raises(BadRequest) as caught:
            parse_request("text", body, max_model_len=256, default_seed=0)
        assert said in caught.value.message


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff", b"null"])
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match="the body is not"):
        parse_request("chat", body, max_model_len=100, default_seed=0)
