"""OTLP JSON: which spans are model calls, in whichever form writers give them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.logs import counts, recorded, rows

START_NS = 1_792_889_998_201_389_540
USAGE = {"gen_ai.usage.input_tokens": {"intValue": "3"}, "gen_ai.usage.output_tokens": {"intValue": "2"}}


def span(attributes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    listed = [{"key": key, "value": value} for key, value in attributes.items()]
    times = {"startTimeUnixNano": str(START_NS), "endTimeUnixNano": str(START_NS + 1_503_122_004)}
    return {"traceId": "t", "spanId": "a", "name": "chat", **times, "attributes": listed, **fields}


def batch(*spans: dict[str, Any]) -> dict[str, Any]:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}


def one(tmp_path: Path, attributes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    (row,) = rows(recorded(tmp_path, json.dumps(batch(span(attributes, **fields))) + "\n"))
    return row


HTTP = span({"http.request.method": {"stringValue": "POST"}}, spanId="b")


def test_start_is_the_arrival_to_the_nanosecond_and_end_gives_the_duration(tmp_path: Path) -> None:
    row = one(tmp_path, USAGE)
    assert (row["unix_ns"], row["duration_ns"]) == (START_NS, 1_503_122_004)
    assert (row["input_tokens"], row["output_tokens"]) == (3, 2)


def resource_by_resource(document: dict[str, Any]) -> str:
    return "\n".join(json.dumps({"resourceSpans": [part]}) for part in document["resourceSpans"])


@pytest.mark.parametrize(
    "form",
    [
        json.dumps,
        lambda document: json.dumps(document, indent=2),
        resource_by_resource,
        lambda document: json.dumps(document) + "\n" + json.dumps({"resourceMetrics": []}),
        lambda document: json.dumps({"batches": document["resourceSpans"]}, indent=1),
        lambda document: json.dumps(document).replace("scopeSpans", "instrumentationLibrarySpans"),
    ],
)
def test_the_form_of_the_file_makes_no_difference(tmp_path: Path, form: Any) -> None:
    later = span(USAGE, spanId="c", startTimeUnixNano=START_NS + 5)
    document = {"resourceSpans": [*batch(HTTP, span(USAGE))["resourceSpans"], *batch(later)["resourceSpans"]]}
    recording = recorded(tmp_path, form(document) + "\n", "otlp")
    assert [row["arrival_ns"] for row in rows(recording)] == [0, 5]
    assert counts(recording)[2] == 0


@pytest.mark.parametrize(
    ("attributes", "column", "value"),
    [
        ({"gen_ai.usage.input_tokens": {"intValue": 7}}, "input_tokens", 7),
        ({"gen_ai.usage.input_tokens": {"doubleValue": 7.0}}, "input_tokens", 7),
        ({"gen_ai.usage.prompt_tokens": {"intValue": "7"}}, "input_tokens", 7),
        ({"llm.token_count.completion": {"intValue": "7"}}, "output_tokens", 7),
        ({"gen_ai.request.model": {"stringValue": "asked"}}, "model", "asked"),
        (
            {
                "gen_ai.request.model": {"stringValue": "asked"},
                "gen_ai.response.model": {"stringValue": "served"},
            },
            "model",
            "served",
        ),
        ({"gen_ai.conversation.id": {"stringValue": "c-1"}}, "session", 0),
        ({"gen_ai.request.stream": {"boolValue": True}}, "stream", True),
        ({"http.response.status_code": {"intValue": "200"}}, "status", 200),
        ({"error.type": {"stringValue": "429"}}, "status", 429),
        ({"error.type": {"stringValue": "timeout"}}, "status", None),
        ({"gen_ai.response.time_to_first_chunk": {"doubleValue": 0.25}}, "ttft_ns", 250_000_000),
        ({"gen_ai.latency.time_to_first_token": {"doubleValue": 0.25}}, "ttft_ns", 250_000_000),
        ({"gen_ai.server.time_to_first_token": {"stringValue": "0.25"}}, "ttft_ns", 250_000_000),
    ],
)
def test_attributes_of_any_type_and_age(
    tmp_path: Path, attributes: dict[str, Any], column: str, value: object
) -> None:
    usage = {key: one for key, one in USAGE.items() if not column.endswith("tokens")}
    assert one(tmp_path, usage | attributes)[column] == value


@pytest.mark.parametrize("operation", ["invoke_agent", "create_agent", "execute_tool", "invoke_workflow"])
def test_what_sums_up_others_is_no_request(tmp_path: Path, operation: str) -> None:
    agent = span(USAGE | {"gen_ai.operation.name": {"stringValue": operation}}, spanId="b")
    recording = recorded(tmp_path, json.dumps(batch(HTTP, agent, span(USAGE))))
    assert counts(recording) == (1, 2, 0)


def test_a_call_within_a_call_is_told(tmp_path: Path) -> None:
    around = span(USAGE, spanId="b")
    recording = recorded(tmp_path, json.dumps(batch(span(USAGE, parentSpanId="b"), around)))
    assert counts(recording) == (2, 0, 0)
    assert any("may count twice" in text for text in recording.fidelity.warnings)


def test_a_time_to_first_token_beyond_the_span_is_not_taken(tmp_path: Path) -> None:
    attributes = USAGE | {"gen_ai.server.time_to_first_token": {"doubleValue": 210.0}}
    recording = recorded(tmp_path, json.dumps(batch(span(attributes))))
    assert rows(recording)[0]["ttft_ns"] is None
    assert any("are they in s?" in text for text in recording.fidelity.warnings)


def test_zero_tokens_of_a_failure_are_unknown_and_of_an_answer_are_zero(tmp_path: Path) -> None:
    nothing = {key: {"intValue": "0"} for key in USAGE}
    failed = span(nothing, status={"code": 2})
    recording = recorded(tmp_path, json.dumps(batch(failed, span(USAGE, spanId="b"))))
    assert [row["output_tokens"] for row in rows(recording)] == [None, 2]
    assert one(tmp_path, nothing)["output_tokens"] == 0


@pytest.mark.parametrize(
    "fault",
    [
        {"startTimeUnixNano": None},
        {"startTimeUnixNano": "0"},
        {"attributes": [{"key": "gen_ai.usage.input_tokens", "value": {"intValue": "-3"}}]},
    ],
)
def test_a_span_at_fault_is_malformed_and_others_of_its_batch_are_kept(tmp_path: Path, fault: Any) -> None:
    lines = ["", json.dumps(batch(span(USAGE), span(USAGE) | fault)), json.dumps(batch(span(USAGE)))]
    recording = recorded(tmp_path, "\n".join(lines), "otlp")
    assert counts(recording) == (2, 0, 2)
    assert [place.line for place in recording.fidelity.malformed] == [1, 2]


def test_batches_among_lines_of_text_in_a_wrapper(tmp_path: Path) -> None:
    stamp = "2026-10-25T00:59:59Z stdout F "
    text = f"{stamp}starting\n{stamp}{json.dumps(batch(span(USAGE)))}\n"
    recording = recorded(tmp_path, text)
    assert recording.fidelity.format_name == "otlp"
    assert counts(recording) == (1, 1, 0)


def test_a_batch_longer_than_what_is_looked_at_is_recognised(tmp_path: Path) -> None:
    spans = [span(USAGE, spanId=str(number)) for number in range(2000)]
    recording = recorded(tmp_path, json.dumps(batch(*spans), indent=1))
    assert recording.fidelity.format_name == "otlp"
    assert counts(recording) == (2000, 0, 0)
