"""Exports and APIs of gateways: Helicone's manual logger, Langfuse's API, LiteLLM's spend logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.logs import counts, recorded, rows

AT_NS = 1_792_889_998_201_000_000
MANUAL = {
    "providerRequest": {"json": {"model": "demo", "stream": True}, "url": "x"},
    "providerResponse": {"json": {"usage": {"prompt_tokens": 3, "completion_tokens": 2}}, "status": 200},
    "timing": {
        "startTime": {"seconds": 1792889998, "milliseconds": 201},
        "endTime": {"seconds": 1792889999, "milliseconds": 4},
    },
}


def test_seconds_and_milliseconds_of_helicones_manual_logger_are_one_moment(tmp_path: Path) -> None:
    recording = recorded(tmp_path, json.dumps(MANUAL))
    assert recording.fidelity.format_name == "helicone-manual"
    (row,) = rows(recording)
    assert (row["unix_ns"], row["duration_ns"]) == (AT_NS, 803_000_000)
    assert (row["input_tokens"], row["output_tokens"]) == (3, 2)
    assert (row["status"], row["model"], row["stream"]) == (200, "demo", True)


def test_tokens_under_the_other_providers_names(tmp_path: Path) -> None:
    usage = {"input_tokens": 7, "output_tokens": 1}
    (row,) = rows(recorded(tmp_path, json.dumps(MANUAL | {"providerResponse": {"json": {"usage": usage}}})))
    assert (row["input_tokens"], row["output_tokens"], row["status"]) == (7, 1, None)


@pytest.mark.parametrize(
    "start",
    [
        None,
        {"seconds": 1792889998},
        {"seconds": "1792889998", "milliseconds": 1},
        {"seconds": 9, "milliseconds": 1000},
    ],
)
def test_a_manual_entry_without_a_start_is_malformed(tmp_path: Path, start: Any) -> None:
    text = json.dumps(MANUAL) + "\n" + json.dumps(MANUAL | {"timing": {"startTime": start}}) + '\n{"a": 1}\n'
    assert counts(recorded(tmp_path, text)) == (1, 1, 1)


OBSERVATION = {
    "id": "a",
    "traceId": "t",
    "type": "GENERATION",
    "startTime": "2026-10-25T00:59:58.201Z",
    "endTime": "2026-10-25T00:59:59.004Z",
    "completionStartTime": "2026-10-25T00:59:58.301Z",
    "model": "demo",
    "sessionId": "s",
}


@pytest.mark.parametrize(
    "usage",
    [
        {"usageDetails": {"input": 3, "output": 2}},
        {"usage": {"input": 3, "output": 2, "unit": "TOKENS"}},
        {"promptTokens": 3, "completionTokens": 2},
    ],
)
@pytest.mark.parametrize("as_document", [True, False])
def test_langfuses_api_is_read_in_all_ages_of_usage(
    tmp_path: Path, usage: dict[str, Any], as_document: bool
) -> None:
    listed = [OBSERVATION | usage, OBSERVATION | {"type": "SPAN"}]
    document = json.dumps({"data": listed, "meta": {"page": 1}})
    recording = recorded(tmp_path, document if as_document else "\n".join(map(json.dumps, listed)))
    assert recording.fidelity.format_name == "langfuse"
    assert counts(recording) == (1, 1, 0)
    (row,) = rows(recording)
    assert (row["unix_ns"], row["duration_ns"], row["ttft_ns"]) == (AT_NS, 803_000_000, 100_000_000)
    assert (row["input_tokens"], row["output_tokens"], row["model"], row["session"]) == (3, 2, "demo", 0)


SPEND = {
    "request_id": "a",
    "call_type": "acompletion",
    "startTime": "2026-10-25T00:59:58.201000Z",
    "endTime": "2026-10-25T00:59:59.004000Z",
    "prompt_tokens": 3,
    "completion_tokens": 2,
    "model": "demo",
    "session_id": "s",
}


@pytest.mark.parametrize("zone", ["Z", "+00:00", ""])
def test_litellms_spend_logs_hold_iso_stamps_in_utc(tmp_path: Path, zone: str) -> None:
    logged = SPEND | {key: str(SPEND[key]).replace("Z", zone) for key in ("startTime", "endTime")}
    recording = recorded(tmp_path, json.dumps([logged]))
    assert recording.fidelity.format_name == "litellm"
    (row,) = rows(recording)
    assert (row["unix_ns"], row["duration_ns"], row["session"]) == (AT_NS, 803_000_000, 0)
