"""Log formats: which moment the stamp marks, what is refused, and wrappers around them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import RecordError
from loadgen.record.fields import written_duration_ns
from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.settings import RecordSettings

COMMON = '192.0.2.7 - - [25/Oct/2026:02:00:01 +0100] "POST /v1/chat HTTP/1.1" 200 812 "-" "demo/1"'
CADDY = json.dumps(
    {
        "ts": 1792890001.5,
        "msg": "handled request",
        "request": {"method": "POST", "uri": "/v1/chat?key=SECRET"},
        "bytes_read": 40,
        "duration": 0.5,
        "size": 80,
        "status": 200,
    }
)


def record_text(tmp_path: Path, text: str, format_name: str = "auto", **options: Any) -> Recording:
    path = tmp_path / "a.log"
    path.write_text(text, encoding="utf-8")
    return record_logs([path], format_name, RecordSettings(**options))


def origin_ns(recording: Recording) -> int:
    origin = recording.trace.metadata.origin_unix_ns
    assert origin is not None
    return origin


def test_look_that_nginx_and_apache_share_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="nginx and of Apache alike") as caught:
        record_text(tmp_path, COMMON + " 911 1503122\n")
    assert caught.value.hint is not None
    assert "--format apache" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "reason"), [("", "0 usable of 0 lines"), ("what is this\n", "not recognised")]
)
def test_log_of_no_known_format_is_refused_by_name(tmp_path: Path, text: str, reason: str) -> None:
    """F47"""
    with pytest.raises(RecordError, match=r"^a\.log: .*" + reason):
        record_text(tmp_path, text)


def test_caddy_stamp_is_the_completion(tmp_path: Path) -> None:
    recording = record_text(tmp_path, CADDY + "\n")
    assert recording.fidelity.format_name == "caddy"
    assert origin_ns(recording) == 1_792_890_001_000_000_000
    assert recording.trace.table.column("endpoint").to_pylist() == ["/v1/chat"]


@pytest.mark.parametrize("wrap", ["docker", "cri", "journald", "journald bytes", "cloudwatch", "loki"])
def test_known_format_is_recognised_inside_each_wrapper(tmp_path: Path, wrap: str) -> None:
    stamp = "2026-10-25T01:00:02.000000001Z"
    journald = {"__REALTIME_TIMESTAMP": "1792890002000000", "MESSAGE": CADDY}
    wrapped = {
        "docker": json.dumps({"log": CADDY + "\n", "stream": "stdout", "time": stamp}),
        "cri": f"{stamp} stdout P {CADDY[:20]}\n{stamp} stderr F noise\n{stamp} stdout F {CADDY[20:]}",
        "journald": json.dumps(journald),
        "journald bytes": json.dumps(journald | {"MESSAGE": list(CADDY.encode())}),
        "cloudwatch": json.dumps(
            {"events": [{"timestamp": 1792890002000, "message": CADDY, "ingestionTime": 1}]}, indent=1
        ),
        "loki": json.dumps(
            {"data": {"result": [{"stream": {}, "values": [["1792890002000000000", CADDY]]}]}}
        ),
    }[wrap]
    recording = record_text(tmp_path, wrapped + "\n")
    assert recording.fidelity.format_name == "caddy"
    assert origin_ns(recording) == 1_792_890_001_000_000_000
    assert recording.fidelity.num_other == (1 if wrap == "cri" else 0)


def test_line_split_by_docker_is_joined_for_each_stream(tmp_path: Path) -> None:
    parts = [(CADDY[:30], "stdout"), ("noise\n", "stderr"), (CADDY[30:] + "\n", "stdout")]
    text = "".join(
        json.dumps({"log": log, "stream": name, "time": "2026-10-25T01:00:02Z"}) + "\n" for log, name in parts
    )
    fidelity = record_text(tmp_path, text).fidelity
    assert (fidelity.num_requests, fidelity.num_other, fidelity.num_malformed) == (1, 1, 0)


def test_malformed_inner_line_is_named_by_its_line_in_the_file(tmp_path: Path) -> None:
    texts = ["noise\n", CADDY + "\n", '{"ts":\n']
    text = "".join(
        json.dumps({"log": log, "stream": "stdout", "time": "2026-10-25T01:00:02Z"}) + "\n" for log in texts
    )
    fidelity = record_text(tmp_path, text).fidelity
    assert [place.line for place in fidelity.malformed] == [3]


def test_vllm_needs_year_and_zone(tmp_path: Path) -> None:
    line = "INFO 10-25 00:59:58 [logger.py:42] Received request a: prompt: 'x', prompt_token_ids: [1, 2]\n"
    with pytest.raises(RecordError, match="no year and no zone"):
        record_text(tmp_path, line)
    recording = record_text(tmp_path, line, year=2026, zone="UTC")
    assert origin_ns(recording) == 1_792_889_998 * 10**9
    assert recording.trace.table.column("input_tokens").to_pylist() == [2]


def test_vllm_log_over_new_year_goes_on(tmp_path: Path) -> None:
    line = "INFO {} [logger.py:42] Received request {}: prompt: 'x', prompt_token_ids: [1]\n"
    text = line.format("12-31 23:59:59", "a") + line.format("01-01 00:00:01", "b")
    assert record_text(tmp_path, text, year=2026, zone="UTC").trace.span_s == 2.0


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1m2.5s", 62_500_000_000),
        ("12.25ms", 12_250_000),
        ("873.1µs", 873_100),
        ("873.1μs", 873_100),
        ("5ns", 5),
    ],
)
def test_durations_with_units_are_exact(text: str, ns: int) -> None:
    assert written_duration_ns(text) == ns


@pytest.mark.parametrize("text", ["", "5", "ms", "1x", "1s2"])
def test_what_is_no_duration_with_units_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        written_duration_ns(text)


@pytest.mark.parametrize(
    ("text", "format_name", "options", "hint"),
    [
        ("INFO 10-25 00:59:58 started\n", "vllm", {"year": 2026, "zone": "UTC"}, "--enable-log-requests"),
        ("[2026-10-25 00:59:58] started\n", "sglang", {"zone": "UTC"}, "--log-requests"),
        ('{"type":"SPAN","start_time":"2026-10-25 00:59:58"}\n', "langfuse", {}, "type GENERATION"),
        ('{"type":"SPAN","startTime":"2026-10-25T00:59:58Z"}\n', "langfuse", {}, "startTime"),
        ('{"resourceSpans":[]}\n', "otlp", {}, "gen_ai.usage"),
        (
            COMMON.replace("POST", "GET") + " 911 1503122\n",
            "apache",
            {},
            "--path / keeps those of any method",
        ),
        (COMMON + "\n", "apache", {"path_prefixes": ("/v2/",)}, "no path begins with /v2/: check --path"),
        ("noise\n", "caddy", {}, "is it the right --format?"),
    ],
)
def test_a_log_without_requests_tells_what_marks_one(
    tmp_path: Path, text: str, format_name: str, options: dict[str, Any], hint: str
) -> None:
    with pytest.raises(RecordError, match="0 usable of 1 lines") as caught:
        record_text(tmp_path, text, format_name, **options)
    assert caught.value.hint is not None
    assert hint in caught.value.hint
    if format_name not in ("apache", "caddy"):
        assert "--path" not in caught.value.hint
