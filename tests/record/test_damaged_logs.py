"""Logs with damage anywhere: a recording, or an error in one line; never a crash."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.errors import LoadgenError
from loadgen.record.formats.catalog import FORMATS, NAMED_FIELDS
from loadgen.record.recorder import record_logs
from loadgen.record.settings import RecordSettings

TAIL = "rt=1.503 msec=1792890001.204 rl=911 bs=1077"
LINES = [
    f'192.0.2.7 - - [25/Oct/2026:02:00:01 +0100] "POST /v1/chat HTTP/1.1" 200 812 "-" "demo/1" {TAIL}',
    '192.0.2.7 - - [25/Oct/2026:02:00:01 +0100] "POST /v1/chat HTTP/1.1" 200 812 "-" "demo/1" 911 1503122',
    '[2026-10-25T00:59:58.201Z] "POST /v1/chat HTTP/2" 200 - 402 5124 1503 210 "192.0.2.7" "demo/1"',
    '{"msec":"1792890001.204","request_time":1.503,"request_length":911,"request":"POST /v1 HTTP/1.1"}',
    '{"ts":1792889999.7,"request":{"method":"POST","uri":"/v1"},"bytes_read":4,"duration":1.5,"size":5,"status":200}',
    '{"StartUTC":"2026-10-25T00:59:58.2Z","Duration":1503122004,"RequestPath":"/v1","DownstreamStatus":200}',
    '{"t":1792889999,"in":3,"out":[2]}',
    't,in,out\n1792889999,3,"2',
    "t=1792889999 in=3 out=2 level=info",
    '{"log":"{\\"t\\":1792889999,\\"in\\":1}\\n","stream":"stdout","time":"2026-10-25T00:59:59.7Z"}',
    "2026-10-25T00:59:59.704511544Z stdout F t=1792889999 in=3 out=2",
    '{"__REALTIME_TIMESTAMP":"1792889999704511","MESSAGE":[104,300]}',
    '{"data":{"result":[{"values":[["x",null],[1]]}]}}',
    '{"events":[{"timestamp":null,"message":3,"ingestionTime":1},7]}',
    "INFO 10-25 00:59:58 [logger.py:42] Received request a: prompt: 'x', prompt_token_ids: [1, 2]",
    '{"resourceSpans":[{"scopeSpans":[{"spans":[{"spanId":"a","parentSpanId":"a","startTimeUnixNano":"1792889998201389540",'
    '"endTimeUnixNano":7,"attributes":[{"key":"gen_ai.usage.input_tokens","value":{"intValue":"3"}}]}]}]}]}',
    '{"ts":"2026-10-25T00:59:58Z","latency_ms":3,"request":{"messages":[{"content":[{"text":"x"}]}]},"response":[{"usage":2}]}',
    '{"custom_id":"1","response":{"body":{}}}',
    '{"timestamp":"2026-10-25T00:59:59.704511Z","level":"INFO","target":"text_generation_router","span":{"total_time":"1.5s",'
    '"inference_time":"1s","time_per_token":"0ns","name":[]}}',
    "Oct 24 20:59:59 lb1 haproxy[8]: 192.0.2.7:1 [24/Oct/2026:20:59:58.201] h~ l/g "
    '0/0/0/-1/+15 -1 +3 - - ---- 1/9/4/1/0 0/0 "POST /v1 H"',
    '192.0.2.7 - - [25/Oct/2026:00:59:58 +0000] "POST /v1 HTTP/1.1" 200 51 "-" "d" 12 "r" "http://a" 1503ms',
    '[{"id":1,"model_name":"m","model_version":1},{"id":1,"timestamps":[{"name":"REQUEST_START","ns":2259961222771924}]}]',
    '{"id":2,"activity":"TENSOR_QUEUE_INPUT","tensor":{"name":"input_ids","shape":"1,5","data":"1"}}',
    '{"providerRequest":{},"timing":{"startTime":{"seconds":1792889998,"milliseconds":201}}}',
    '{"type":"GENERATION","traceId":"a","startTime":"2026-10-25T00:59:58Z","usage":{"input":3}}',
    "<134>1 2026-10-25T00:59:59.704Z host app - - - t=1792889999 in=3 out=2",
    "2026-10-25T00:59:59.704Z {}",
    '{"timestamp":"2026-10-25T00:59:58.201389","event":"request.received","rid":["1f"],"obj":{"input_ids":[1,"..."]}}',
    '2026-10-25T00:59:59.704511Z  INFO generate{a=1 total_time="1.5s" inference_time="1s" time_per_token="2ms"}: '
    "text_generation_router::server: router/src/server.rs:402: Success",
    "[2026-10-25 00:59:58] Finish: obj=G(rid='1f'), out={'meta_info': {'prompt_tokens': 3}}",
]
FIELDS: dict[str, Any] = {
    "time_field": "t",
    "length_fields": {"input_tokens": "in", "output_tokens": "out"},
}
OPTIONS: dict[str, Any] = {"zone": "UTC", "year": 2026}


def damaged(rng: np.random.Generator) -> bytes:
    lines = [LINES[int(rng.integers(len(LINES)))] for _ in range(int(rng.integers(1, 5)))]
    text = bytearray("\n".join(lines).encode())
    for _ in range(int(rng.integers(0, 4))):
        start = int(rng.integers(len(text) + 1))
        text[start : start + int(rng.integers(0, 4))] = bytes(
            rng.integers(0, 256, int(rng.integers(0, 4))).tolist()
        )
    return bytes(text[: int(rng.integers(1, len(text) + 2))])


@pytest.mark.parametrize("format_name", ["auto", *FORMATS])
def test_damage_never_crashes_a_recording(tmp_path: Path, format_name: str) -> None:
    rng = np.random.default_rng(list(FORMATS).index(format_name) if format_name != "auto" else 99)
    path = tmp_path / "a.log"
    for turn in range(60):
        path.write_bytes(damaged(rng))
        has_fields = format_name in NAMED_FIELDS or (format_name == "auto" and turn % 2)
        try:
            record_logs([path], format_name, RecordSettings(**OPTIONS, **(FIELDS if has_fields else {})))
        except LoadgenError as error:
            assert "\n" not in error.message


@pytest.mark.parametrize(
    "damaged", ["{'p': '" + "x" * 40_000, '{"t": ' + "[" * 40_000, '{"t": "' + "x" * 40_000]
)
def test_a_long_line_that_is_damaged_is_one_malformed_line(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f'{{"t": 1792889998}}\n{damaged}\n{{"t": 1792889999}}\n', encoding="utf-8")
    fidelity = record_logs([path], "jsonl", RecordSettings(time_field="t")).fidelity
    assert (fidelity.num_requests, fidelity.num_malformed) == (2, 1)


def test_a_long_line_that_is_no_access_log_line_is_one_malformed_line(tmp_path: Path) -> None:
    line = '1.1.1.1 - - [25/Oct/2026:02:00:01 +0100] "POST /v1 HTTP/1.1" 200 8 "-" "d" rt=1.5 msec=1792890001.204'
    path = tmp_path / "access.log"
    path.write_text(f"{line}\n{'x' * 40_000}\n{line}\n", encoding="utf-8")
    fidelity = record_logs([path], "nginx", RecordSettings()).fidelity
    assert (fidelity.num_requests, fidelity.num_malformed) == (2, 1)


def test_a_line_nested_too_deeply_is_one_malformed_line(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    deep = '{"t": 1, "p": ' + "[" * 100_000 + "]" * 100_000 + "}"
    path.write_text(f'{{"t": 1792889998}}\n{deep}\n{{"t": 1792889999}}\n', encoding="utf-8")
    fidelity = record_logs([path], "jsonl", RecordSettings(time_field="t")).fidelity
    assert (fidelity.num_requests, fidelity.num_malformed) == (2, 1)
    event = '{"event": "request.received", "rid": "a", "p": ' + "[" * 100_000 + "]" * 100_000 + "}"
    path.write_text(event + "\n", encoding="utf-8")
    with pytest.raises(LoadgenError, match="0 usable of 1 lines"):
        record_logs([path], "sglang", RecordSettings(zone="UTC"))


def test_a_long_word_is_not_searched_from_each_of_its_characters() -> None:
    # Tried from each, this takes minutes.
    began_s = time.process_time()
    assert not FORMATS["logfmt"].looks_like([b"x" * 256_000])
    assert time.process_time() - began_s < 30
