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
