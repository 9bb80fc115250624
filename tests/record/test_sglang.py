"""SGLang: text and JSON lines of the request log, joined by rid; batches, damage, and prompts that were cut."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import RecordError
from support.logs import counts, recorded, rows

START_NS = 1_792_889_998 * 10**9


def received(rid: Any = "1f", stamp: str = "2026-10-25T00:59:58.201389", **asked: Any) -> str:
    document = {"timestamp": stamp, "event": "request.received", "rid": rid, "obj": {"rid": rid, **asked}}
    return json.dumps(document, ensure_ascii=False) + "\n"


def finished(rid: str = "1f", **meta: Any) -> str:
    known = {"id": rid, "prompt_tokens": 3, "completion_tokens": 2, "e2e_latency": 1.5031}
    document = {
        "timestamp": "2026-10-25T00:59:59.704511",
        "event": "request.finished",
        "rid": rid,
        "obj": {"rid": rid},
        "out": {"text": "ok", "meta_info": known | meta},
    }
    return json.dumps(document) + "\n"


def test_json_lines_tell_the_arrival_to_the_microsecond(tmp_path: Path) -> None:
    noise = "[2026-10-25 00:59:58 TP0] Decode batch, #running-req: 6\n"
    recording = recorded(tmp_path, noise + received(stream=True) + noise + finished(), zone="UTC")
    assert recording.fidelity.format_name == "sglang"
    assert counts(recording) == (1, 2, 0)
    (row,) = rows(recording)
    assert row["unix_ns"] == START_NS + 201_389_000
    assert (row["input_tokens"], row["output_tokens"], row["duration_ns"]) == (3, 2, 1_503_100_000)
    assert row["stream"] is True
    assert not any("resolution of 1 s" in warning for warning in recording.fidelity.warnings)


def test_json_lines_need_a_zone(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no zone"):
        recorded(tmp_path, received() + finished())


def test_keys_in_another_order_and_numbers_that_are_no_json_are_read(tmp_path: Path) -> None:
    document = json.loads(received())
    sorted_keys = json.dumps({key: document[key] for key in sorted(document)} | {"temperature": float("inf")})
    assert counts(recorded(tmp_path, sorted_keys + "\n" + finished(), "sglang", zone="UTC")) == (1, 0, 0)


def test_a_batch_is_received_once_and_its_prompts_finish_one_by_one(tmp_path: Path) -> None:
    recording = recorded(tmp_path, received(["a", "b"]) + finished("b") + finished("a"), zone="UTC")
    assert [row["input_tokens"] for row in rows(recording)] == [3, 3]
    text = (
        "[2026-10-25 00:59:58] Receive: obj=GenerateReqInput(rid=['a', 'b'], stream=False)\n"
        "[2026-10-25 00:59:59] Finish: obj=GenerateReqInput(rid='b'), "
        "out={'meta_info': {'prompt_tokens': 7, 'completion_tokens': 2}}\n"
    )
    of_text = recorded(tmp_path, text, zone="UTC")
    assert [row["input_tokens"] for row in rows(of_text)] == [None, 7]
    assert of_text.fidelity.resolution_ns == 10**9


@pytest.mark.parametrize(
    "damaged",
    [
        received(stamp="yesterday"),
        received(rid=None),
        received(rid=[]),
        finished(prompt_tokens=-1),
        finished(e2e_latency="long"),
        '{"event": "request.received", "rid": }\n',
    ],
)
def test_a_damaged_line_is_malformed(tmp_path: Path, damaged: str) -> None:
    recording = recorded(tmp_path, received() + damaged, "sglang", zone="UTC")
    assert counts(recording) == (1, 0, 1)


@pytest.mark.parametrize(
    "asked",
    [
        ({"text": "x" * 1024 + "..." + "a" * 1024}, {"text": "x" * 1024 + "..." + "b" * 1024}),
        ({"input_ids": [7] * 1024 + ["..."] + [1] * 1024}, {"input_ids": [7] * 1024 + ["..."] + [2] * 1024}),
    ],
    ids=["text", "ids"],
)
def test_prefix_blocks_end_where_the_log_cut_the_prompt(tmp_path: Path, asked: Any) -> None:
    text = received("a", **asked[0]) + received("b", **asked[1])
    recording = recorded(tmp_path, text, "sglang", zone="UTC", prefix_salt=b"salt")
    first, second = (row["prefix_blocks"] for row in rows(recording))
    assert first == second
    assert len(first) == (16 if "text" in asked[0] else 64)
