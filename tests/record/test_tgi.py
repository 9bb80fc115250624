"""TGI: the stamp is the completion, tokens come back out of times, the input's length does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.logs import counts, recorded, rows

TIMES = {
    "total_time": "1.503122004s",
    "inference_time": "1.502648304s",
    "time_per_token": "21.4664043ms",
    "name": "generate",
}


def line(**span: Any) -> str:
    document = {
        "timestamp": "2026-10-25T00:59:59.704511Z",
        "level": "INFO",
        "message": "Success",
        "target": "text_generation_router::server",
        "span": {key: value for key, value in (TIMES | span).items() if value is not None},
    }
    return json.dumps(document, ensure_ascii=False) + "\n"


def test_the_total_time_is_subtracted_from_the_stamp(tmp_path: Path) -> None:
    recording = recorded(tmp_path, line())
    assert recording.fidelity.format_name == "tgi"
    (row,) = rows(recording)
    assert row["unix_ns"] == 1_792_889_998_201_388_996
    assert row["duration_ns"] == 1_503_122_004
    assert (row["output_tokens"], row["input_tokens"], row["stream"]) == (70, None, False)
    assert recording.trace.metadata.stamp_marks == "completion"


@pytest.mark.parametrize(
    ("span", "column", "value"),
    [
        ({"total_time": "412.5µs"}, "duration_ns", 412_500),
        ({"total_time": "87ns"}, "duration_ns", 87),
        ({"inference_time": None}, "output_tokens", None),
        ({"time_per_token": "0ns"}, "output_tokens", None),
        ({"time_per_token": "much"}, "output_tokens", None),
        ({"name": "generate_stream"}, "stream", True),
        ({"name": "chat_completions"}, "stream", None),
    ],
)
def test_times_of_any_unit(tmp_path: Path, span: dict[str, Any], column: str, value: object) -> None:
    assert rows(recorded(tmp_path, line(**span)))[0][column] == value


def test_failures_and_messages_have_no_times_and_are_other(tmp_path: Path) -> None:
    failure = json.dumps(
        {"timestamp": "2026-10-25T00:59:59Z", "level": "ERROR", "target": "text_generation_router::infer"}
    )
    text = line() + failure + "\n" + line(total_time=None) + line(total_time="long") + "plain text\n"
    assert counts(recorded(tmp_path, text)) == (1, 2, 2)
    wrapped = "".join(f"2026-10-25T01:00:00Z stdout F {one}\n" for one in text.splitlines())
    assert counts(recorded(tmp_path, wrapped)) == (1, 3, 1)


TEXT_TIMES = (
    'total_time="1.503122004s" validation_time="412.5µs" queue_time="61.2µs" inference_time="1.502648304s" '
    'time_per_token="21.4664043ms" seed="None"'
)
AT = "2026-10-25T00:59:59.704511Z  INFO "
SUCCESS = "text_generation_router::server: router/src/server.rs:402: Success"
STOP = 'generate_stream{parameters=GenerateParameters { best_of: None, stop: ["total_time=\\"9s\\" :generate{"] } '


@pytest.mark.parametrize(
    ("text", "stream"),
    [
        (
            AT + "generate{parameters=GenerateParameters { best_of: None } " + f"{TEXT_TIMES}}}: {SUCCESS}",
            False,
        ),
        (AT + f"chat_completions{{{TEXT_TIMES}}}: {SUCCESS}", None),
        (AT + STOP + f"{TEXT_TIMES}}}: {SUCCESS}", True),
        (
            AT + "HTTP request{trace_id=5d}:generate{parameters=P { a: 1 } " + f"{TEXT_TIMES}}}: {SUCCESS}",
            False,
        ),
        (
            "\x1b[2m2026-10-25T00:59:59.704511Z\x1b[0m \x1b[32m INFO\x1b[0m \x1b[1mgenerate\x1b[0m\x1b[1m{\x1b[0m"
            + f"\x1b[3mtotal_time\x1b[0m\x1b[2m=\x1b[0m{TEXT_TIMES.partition('=')[2]}\x1b[1m}}\x1b[0m"
            + "\x1b[2m:\x1b[0m "
            + "\x1b[2mtext_generation_router::server\x1b[0m\x1b[2m:\x1b[0m \x1b[2mrouter/src/server.rs\x1b[0m"
            + "\x1b[2m:\x1b[0m\x1b[2m402:\x1b[0m Success",
            False,
        ),
        (f"tgi-1  | {AT}generate{{{TEXT_TIMES}}}: {SUCCESS}", False),
    ],
    ids=["generate", "chat", "texts of the user", "nested spans", "colours", "compose"],
)
def test_text_lines_tell_what_json_lines_tell(tmp_path: Path, text: str, stream: bool | None) -> None:
    noise = AT + "text_generation_router::server: router/src/server.rs:2402: Connected"
    failure = (
        AT.replace(" INFO", "ERROR") + "generate{a=1}: text_generation_router::infer: infer.rs:1: too long"
    )
    recording = recorded(tmp_path, f"{noise}\n{failure}\nwarming up\n{text}\n")
    assert recording.fidelity.format_name == "tgi"
    assert counts(recording) == (1, 3, 0)
    (row,) = rows(recording)
    assert row["unix_ns"] == 1_792_889_998_201_388_996
    assert (row["duration_ns"], row["output_tokens"], row["stream"]) == (1_503_122_004, 70, stream)
