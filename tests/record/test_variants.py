"""Variants of known formats as servers write them: the arrival, the lengths and the counts of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadgen.record.recorder import record_logs
from loadgen.record.settings import RecordSettings

START_NS = 1_792_889_998 * 10**9
PAST_NS = START_NS + 201_000_000
COMMON = '192.0.2.7 - - [25/Oct/2026:02:59:58 +0200] "POST /v1/chat HTTP/1.1" 200'
APACHE_EMPTY = '192.0.2.7 - - [25/Oct/2026:02:59:58 +0200] "-" 408 - "-" "-"'
TRAEFIK = '{"StartLocal":"2026-10-25T02:59:58.201+02:00","Duration":1503122004,"RequestContentSize":402,'
TRAEFIK += '"DownstreamStatus":200,"RequestMethod":"POST","RequestPath":"/v1/chat"}'
CADDY = '{"ts":"2026-10-25T00:59:59.701Z","request":{"method":"POST","uri":"/v1"},"bytes_read":402,'
CADDY += '"duration":"1.5s","size":5,"status":200}'
CADDY_WALL = CADDY.replace("2026-10-25T00:59:59.701Z", "2026/10/25 00:59:59.701")
ISTIO = (
    '[2026-10-25T00:59:58.201Z] "POST /v1 HTTP/2" 503 UF,URX reset{connection_failure} - "a b" 402 91 1503 - '
)
ISTIO += '"-" "curl" "id" "svc" "-" outbound|80||x - 10.0.0.1:80 10.0.0.2:1 - default'
TCP = '[2026-10-25T00:59:58.201Z] "- - -" 0 - - - "-" 40 9 3 - "-" "-" "-" "-" "10.0.0.1:1" x - - - - -'
LANGFUSE = json.dumps(
    {
        "id": "1f",
        "type": "GENERATION",
        "start_time": "2026-10-25 00:59:58.201000",
        "end_time": "2026-10-25 00:59:59.704000",
        "completion_start_time": None,
        "usage_details": {"input": 402},
    }
)
LANGFUSE_TEXT = json.dumps(
    {
        "type": "GENERATION",
        "start_time": "2026-10-25 00:59:58.201000",
        "end_time": None,
        "input": '"usage_details": "{\\"input\\": 9}"',
        "usage_details": json.dumps({"input": 402, "output": 51}),
    }
)
IDS = "x', params: SamplingParams(n=1), prompt_token_ids: [1, 2, 3], lora_request: None."
VLLM_OLD = f"INFO 10-25 00:59:58 async_llm_engine.py:174] Received request cmpl-1: prompt: '{IDS}"
VLLM_PREFIX = (
    f"\x1b[1;36m(APIServer pid=417)\x1b[0;0m INFO 10-25 00:59:58 [logger.py:42] Received request a: '{IDS}"
)
VLLM_COLOUR = "\x1b[32mINFO\x1b[0m \x1b[90m10-25 00:59:58\x1b[0m \x1b[90m[entrypoints/logger.py:42]\x1b[0m "
VLLM_COLOUR += f"Received request a: '{IDS}"
VLLM_COMPOSE = f"vllm-1  | {VLLM_PREFIX}"
VLLM_POD = f"[pod/vllm-0/vllm] {VLLM_PREFIX}"
SGLANG_OLD = (
    "[2026-10-25 00:59:58] Receive: obj=GenerateReqInput(text='it\\'s, rid=\"x\"', rid='1f', stream=True)\n"
)
SGLANG_OLD += (
    "[2026-10-25 00:59:59] Finish: obj=GenerateReqInput(text=\"it's, rid='x'\", rid='1f'), out={'text': 'a', "
)
SGLANG_OLD += "'meta_info': {'id': '1f', 'prompt_tokens': 3, 'completion_tokens': 2}}"
SGLANG_COMPOSE = "\n".join(f"sglang-1 | {line}" for line in SGLANG_OLD.splitlines())
NGINX_JSON = json.dumps(
    {
        "time_local": "25/Oct/2026:03:00:00 +0200",
        "request_method": "POST",
        "request_uri": "/v1",
        "request_time": "2.000",
        "request_length": "402",
        "status": "200",
    }
)
INGRESS_JSON = '{"time":"2026-10-25T01:00:00+00:00","request_time":2.0,"request_length":402,'
INGRESS_JSON += '"bytes_sent":51,"method":"POST","path":"/v1","status":200}'
OF_2026 = {"year": 2026, "zone": "UTC"}
TABLE: dict[str, Any] = {"time_field": "t"}

# Name, text, format, options, arrivals of the first, (input, output) lengths of it, others.
CASES: list[tuple[str, str, str, dict[str, Any], int, int | None, int | None, int]] = [
    ("apache combined", f'{COMMON} 5301 "-" "d"\n{APACHE_EMPTY}', "apache", {}, START_NS, None, 5301, 1),
    ("apache no body", f'{COMMON} - "-" "d"', "apache", {}, START_NS, None, None, 0),
    ("apache common", f"{COMMON} 5301", "apache", {}, START_NS, None, 5301, 0),
    ("apache io and D", f'{COMMON} 1 "-" "d" 402 5301 1503122', "apache", {}, START_NS, 402, 5301, 0),
    ("nginx-json without msec", NGINX_JSON, "auto", {}, START_NS, 402, None, 0),
    ("ingress-nginx json", INGRESS_JSON, "auto", {}, START_NS, 402, 51, 0),
    ("istio text", f"{ISTIO}\n{TCP}", "auto", {}, PAST_NS, 402, 91, 1),
    ("traefik without StartUTC", TRAEFIK, "auto", {}, PAST_NS, 402, None, 0),
    ("caddy duration as text", CADDY, "auto", {}, PAST_NS, 402, 5, 0),
    ("langfuse without trace_id", LANGFUSE, "auto", {}, PAST_NS, 402, None, 0),
    ("caddy wall clock", CADDY_WALL, "auto", {"zone": "UTC"}, PAST_NS, 402, 5, 0),
    ("langfuse usage as text", LANGFUSE_TEXT, "auto", {}, PAST_NS, 402, 51, 0),
    ("vllm old place", VLLM_OLD, "auto", OF_2026, START_NS, 3, None, 0),
    ("vllm coloured prefix", VLLM_PREFIX, "auto", OF_2026, START_NS, 3, None, 0),
    ("vllm coloured words", VLLM_COLOUR, "auto", OF_2026, START_NS, 3, None, 0),
    ("vllm of docker compose", VLLM_COMPOSE, "auto", OF_2026, START_NS, 3, None, 0),
    ("vllm of kubectl --prefix", VLLM_POD, "auto", OF_2026, START_NS, 3, None, 0),
    ("sglang rid behind the text", SGLANG_OLD, "auto", {"zone": "UTC"}, START_NS, 3, 2, 0),
    ("sglang of docker compose", SGLANG_COMPOSE, "auto", {"zone": "UTC"}, START_NS, 3, 2, 0),
    ("jsonl of arrivals", '{"t": 1792889998}', "jsonl", TABLE, START_NS, None, None, 0),
    ("csv of arrivals", "t;x\n1792889998;1", "csv", TABLE, START_NS, None, None, 0),
    ("logfmt of arrivals", "t=1792889998 a=1 b=2", "logfmt", TABLE, START_NS, None, None, 0),
]


@pytest.mark.parametrize(
    ("text", "format_name", "options", "arrival_ns", "length_in", "length_out", "num_other"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_variant(
    tmp_path: Path,
    text: str,
    format_name: str,
    options: dict[str, Any],
    arrival_ns: int,
    length_in: int | None,
    length_out: int | None,
    num_other: int,
) -> None:
    path = tmp_path / "a.log"
    path.write_text(text + "\n", encoding="utf-8")
    recording = record_logs([path], format_name, RecordSettings(**options))
    trace, fidelity = recording.trace, recording.fidelity
    assert (fidelity.num_requests, fidelity.num_other, fidelity.num_malformed) == (1, num_other, 0)
    assert trace.metadata.origin_unix_ns == arrival_ns
    row = trace.table.to_pylist()[0]
    units = ("tokens", "chars", "bytes")
    assert [row[f"input_{unit}"] for unit in units if row[f"input_{unit}"] is not None] == as_list(length_in)
    assert [row[f"output_{unit}"] for unit in units if row[f"output_{unit}"] is not None] == as_list(
        length_out
    )
    assert any("no input lengths" in warning for warning in fidelity.warnings) == (length_in is None)


def as_list(length: int | None) -> list[int]:
    return [] if length is None else [length]
