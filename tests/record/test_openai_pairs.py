"""Request/response pairs of OpenAI's API: what counts as text, which moment is taken, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import RecordError
from loadgen.openai_texts import input_chars, input_ids, output_chars, usage_tokens
from support.logs import counts, recorded, rows

REQUEST = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": "Straße 🙂"}]}
RESPONSE = {
    "object": "chat.completion",
    "created": 1792889999,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
}
PAIR = {
    "ts": "2026-10-25T02:59:58.201389+02:00",
    "latency_ms": 1503.122,
    "request": REQUEST,
    "response": RESPONSE,
}


def one(tmp_path: Path, pair: dict[str, Any], format_name: str = "auto", **options: Any) -> dict[str, Any]:
    (row,) = rows(recorded(tmp_path, json.dumps(pair), format_name, **options))
    return row


def test_the_pairs_own_moment_is_the_arrival(tmp_path: Path) -> None:
    recording = recorded(tmp_path, json.dumps(PAIR))
    assert recording.fidelity.format_name == "openai-pairs"
    (row,) = rows(recording)
    assert (row["unix_ns"], row["duration_ns"]) == (1_792_889_998_201_389_000, 1_503_122_000)
    assert (row["input_chars"], row["output_chars"]) == (8, 2)
    assert (row["input_tokens"], row["output_tokens"]) == (5, 1)
    assert (row["model"], row["stream"], row["status"]) == ("demo", True, 200)
    assert any("ts marks the arrival" in text for text in recording.fidelity.assumptions)


def test_a_moment_that_marks_the_end_is_said_to(tmp_path: Path) -> None:
    assert one(tmp_path, PAIR, stamp="completion")["unix_ns"] == 1_792_889_996_698_267_000


def test_any_field_can_be_named_for_the_moment(tmp_path: Path) -> None:
    pair = {key: value for key, value in PAIR.items() if key != "ts"} | {"meta": {"at": 1_792_889_998_201}}
    assert one(tmp_path, pair, "openai-pairs", time_field="meta.at")["unix_ns"] == 1_792_889_998_201_000_000


def test_halves_that_are_json_in_a_text_are_read(tmp_path: Path) -> None:
    pair = PAIR | {"request": json.dumps(REQUEST), "response": json.dumps(RESPONSE)}
    assert one(tmp_path, pair)["input_chars"] == 8


def test_a_text_that_was_cut_within_a_character_is_read(tmp_path: Path) -> None:
    text = json.dumps(PAIR).replace("\\ud83d\\ude42", "\\ud83d")
    assert rows(recorded(tmp_path, text))[0]["input_chars"] == 8


@pytest.mark.parametrize(
    ("response", "status"),
    [
        ({"error": {"code": 503}}, 503),
        ({"error": {"code": "rate_limit_exceeded"}}, None),
        ({"error": "gone"}, None),
        (None, None),
        ({}, None),
    ],
)
def test_a_request_that_failed_is_kept_with_what_is_known(
    tmp_path: Path, response: Any, status: int | None
) -> None:
    row = one(tmp_path, PAIR | {"response": response})
    assert (row["status"], row["input_chars"], row["output_chars"], row["output_tokens"]) == (
        status,
        8,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"custom_id": "a", "response": {"status_code": 200, "body": RESPONSE}, "error": None}, "batch API"),
        ({"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": REQUEST}, "batch API"),
        ({"object": "bucket", "start_time": 1, "end_time": 2, "results": []}, "usage API"),
        (RESPONSE, "a response alone"),
        ({"request": REQUEST, "response": RESPONSE}, "carry no moment"),
    ],
)
def test_lines_without_arrivals_are_recognised_and_refused_with_advice(
    tmp_path: Path, document: dict[str, Any], reason: str
) -> None:
    with pytest.raises(RecordError, match=reason) as caught:
        recorded(tmp_path, json.dumps(document) + "\n" + json.dumps(document))
    assert "log the moment of sending" in (caught.value.hint or "")


def test_other_lines_are_counted(tmp_path: Path) -> None:
    text = "\n".join([json.dumps(PAIR), json.dumps({"level": "info"}), json.dumps(PAIR)[:90], ""])
    assert counts(recorded(tmp_path, text)) == (1, 1, 1)
    wrapped = "".join(f"2026-10-25T01:00:00Z stdout F {one}\n" for one in [json.dumps(PAIR), "started"])
    assert counts(recorded(tmp_path, wrapped)) == (1, 1, 0)


@pytest.mark.parametrize(
    ("request_", "chars"),
    [
        ({"messages": [{"content": "ab"}, {"content": None}, {"content": "c"}]}, 3),
        (
            {
                "messages": [
                    {
                        "content": [
                            {"type": "text", "text": "ab"},
                            {"type": "image_url", "image_url": {"url": "x"}},
                        ]
                    }
                ]
            },
            2,
        ),
        ({"messages": [{"content": [{"type": "input_text", "text": "ab"}, "c"]}]}, 3),
        ({"messages": [{"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]}, 2),
        ({"messages": []}, None),
        ({"prompt": "abc"}, 3),
        ({"prompt": ["ab", "c"]}, 3),
        ({"prompt": [1, 2, 3]}, None),
        (
            {
                "instructions": "ab",
                "input": [{"role": "user", "content": [{"type": "input_text", "text": "c"}]}],
            },
            3,
        ),
        ({"input": "abc"}, 3),
        ({"system": [{"type": "text", "text": "ab"}], "messages": [{"content": "c"}]}, 3),
        ({"model": "demo"}, None),
    ],
)
def test_texts_of_requests(request_: dict[str, Any], chars: int | None) -> None:
    assert input_chars(request_) == chars


@pytest.mark.parametrize(
    ("response", "chars"),
    [
        ({"choices": [{"message": {"content": "ab"}}, {"message": {"content": "c"}}]}, 3),
        ({"choices": [{"message": {"content": [{"type": "text", "text": "ab"}]}}]}, 2),
        (
            {
                "choices": [
                    {"message": {"content": "a", "reasoning_content": "bc"}, "logprobs": {"content": ["x"]}}
                ]
            },
            3,
        ),
        ({"choices": [{"message": {"content": None, "tool_calls": [{"function": {"arguments": "{}"}}]}}]}, 2),
        ({"choices": [{"message": {"content": ""}}]}, 0),
        ({"choices": [{"text": "abc"}]}, 3),
        (
            [
                {"choices": [{"delta": {"content": "ab"}}]},
                {"choices": [{"delta": {"content": "c"}}]},
                {"choices": []},
            ],
            3,
        ),
        ({"output": [{"type": "message", "content": [{"type": "output_text", "text": "abc"}]}]}, 3),
        ({"content": [{"type": "text", "text": "abc"}]}, 3),
        ({"error": {"message": "no"}}, None),
    ],
)
def test_texts_of_answers(response: Any, chars: int | None) -> None:
    assert output_chars(response) == chars


def test_tokens_are_those_of_the_usage_of_the_last_chunk_or_of_the_ids() -> None:
    chunks = [{"usage": None}, {"usage": {"input_tokens": 4, "output_tokens": 2}}]
    assert (usage_tokens(chunks, "input"), usage_tokens(chunks, "output")) == (4, 2)
    assert usage_tokens({}, "input") is None
    assert (input_ids({"prompt": [1, 2]}), input_ids({"prompt": ["a"]})) == (2, None)
