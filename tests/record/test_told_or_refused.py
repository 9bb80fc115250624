"""Nothing is passed over silently: options that a format does not read, fields that no line has, odd files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import LoadgenError, RecordError, UsageError
from loadgen.record.formats.catalog import FORMATS, NAMED_FIELDS
from loadgen.record.recorder import record_logs
from loadgen.record.settings import RecordSettings
from loadgen.trace.source_stream import STDIN
from support.logs import counts, recorded, rows

ENVOY = '[2026-10-25T00:59:58Z] "POST /v1 HTTP/2" 200 - 402 51 1503 2 "-" "-" "-" "-" "-"\n'
VLLM = "INFO 10-25 00:59:58 [logger.py:42] Received request a: prompt: 'x', prompt_token_ids: [1, 2]\n"
JSONL = '{"t": 1792889998, "n": {"in": 3}, "code": 200}\n'
NGINX = '10.0.0.1 - - [25/Oct/2026:01:00:00 +0000] "POST /v1/chat HTTP/1.1" 200 512 "-" "curl/8"'


@pytest.mark.parametrize(
    ("text", "format_name", "options", "error"),
    [
        (
            VLLM,
            "vllm",
            {"path_prefixes": ("/v1",), "year": 2026, "zone": "UTC"},
            "--path: lines of vllm hold no",
        ),
        (JSONL, "jsonl", {"path_prefixes": ("/v1",), "time_field": "t"}, "--path: lines of jsonl hold no"),
        (
            "t,in\n1,2\n",
            "csv",
            {"path_prefixes": ("/v1",), "time_field": "t"},
            "--path: lines of csv hold no",
        ),
        (ENVOY, "auto", {"time_field": "t"}, "--time: the fields of envoy are known"),
        (ENVOY, "envoy", {"length_fields": {"input_tokens": "n"}}, "--input-tokens: the fields of envoy"),
        (ENVOY, "envoy", {"stamp": "completion"}, "--stamp: the fields of envoy"),
        (ENVOY, "envoy", {"log_format": "%h"}, "--log-format is for nginx and apache"),
    ],
)
def test_an_option_that_the_format_does_not_read_is_refused(
    tmp_path: Path, text: str, format_name: str, options: dict[str, Any], error: str
) -> None:
    with pytest.raises(UsageError, match=error):
        recorded(tmp_path, text, format_name, **options)


@pytest.mark.parametrize("format_name", sorted(set(FORMATS) - {"nginx", "apache"}))
def test_each_format_says_whether_its_lines_hold_paths(format_name: str) -> None:
    log_format = FORMATS[format_name](RecordSettings(time_field="t", zone="UTC", year=2026))
    has_paths = hasattr(log_format, "_filter") and getattr(log_format, "needs", None) is None
    assert has_paths == (getattr(log_format, "needs", None) is None)


def test_the_fields_of_the_lines_are_named_when_the_time_is_not(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="read as jsonl: which field holds the time") as caught:
        recorded(tmp_path, JSONL)
    assert caught.value.hint == "give --time FIELD; the lines have t, n.in, code"
    with pytest.raises(RecordError, match="the time is missing") as caught:
        recorded(tmp_path, JSONL, time_field="ts")
    assert caught.value.hint == "is ts the field of the time? the lines have t, n.in, code"
    with pytest.raises(RecordError, match="read as csv") as caught:
        recorded(tmp_path, "when;in\n1;2\n")
    assert "when, in" in (caught.value.hint or "")
    with pytest.raises(RecordError, match="read as logfmt") as caught:
        recorded(tmp_path, "at=1 in=2 out=3\n", "logfmt")
    assert "at, in, out" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("text", "format_name"),
    [(JSONL, "jsonl"), ("at=1 in=2\n", "logfmt"), ("[" + JSONL.strip() + "]", "jsonl")],
)
def test_the_moment_of_a_wrapper_is_refused_where_none_gives_one(
    tmp_path: Path, text: str, format_name: str
) -> None:
    with pytest.raises(RecordError, match=r"a\.log: no wrapper gives a moment"):
        recorded(tmp_path, text, format_name, time_field="@written")


def test_a_header_that_looks_like_text_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="read as csv") as caught:
        recorded(tmp_path, "Dear Ann, this is: private\n")
    assert caught.value.hint == "give --time FIELD"


def test_a_vllm_log_without_ids_says_where_they_are_logged(tmp_path: Path) -> None:
    text = VLLM.replace(", prompt_token_ids: [1, 2]", "")
    warnings = recorded(tmp_path, text, "vllm", year=2026, zone="UTC").fidelity.warnings
    assert any("VLLM_LOGGING_LEVEL=DEBUG" in warning for warning in warnings)
    assert not any(
        "VLLM_LOGGING_LEVEL" in warning
        for warning in recorded(tmp_path, VLLM, "vllm", year=2026, zone="UTC").fidelity.warnings
    )


def test_a_length_that_no_line_has_is_told_by_its_field(tmp_path: Path) -> None:
    lengths = {"input_tokens": "n.in", "output_tokens": "out"}
    warnings = recorded(tmp_path, JSONL, time_field="t", length_fields=lengths).fidelity.warnings
    assert "no request has a value in out, named for output_tokens: is the name right?" in warnings
    assert not any("n.in" in warning for warning in warnings)


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="column 'in' is there 2 times"):
        recorded(tmp_path, "t,in,in\n1792889998,3,4\n", time_field="t", length_fields={"input_tokens": "in"})


def test_standard_input_is_read_once() -> None:
    with pytest.raises(UsageError, match="given more than once"):
        record_logs([STDIN, STDIN], "envoy", RecordSettings())


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_text_of_two_bytes_a_character_is_refused_by_name(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(("\ufeff" + ENVOY).encode(encoding))
    with pytest.raises(RecordError, match="UTF-16") as caught:
        record_logs([path], "envoy", RecordSettings())
    assert "iconv" in (caught.value.hint or "")


def test_access_lines_of_uvicorn_are_refused_by_name(tmp_path: Path) -> None:
    line = 'INFO:     192.0.2.7:40112 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    with pytest.raises(RecordError, match="uvicorn carry no time"):
        recorded(tmp_path, f"(APIServer pid=417) {line}{line}")


def test_a_year_beyond_what_stamps_can_hold_is_refused() -> None:
    with pytest.raises(UsageError, match="--year is 99999"):
        RecordSettings(year=99999)


def test_few_lines_that_are_mostly_malformed_make_the_trace_doubtful(tmp_path: Path) -> None:
    fidelity = recorded(tmp_path, JSONL + "{\n" * 3, "jsonl", time_field="t").fidelity
    assert fidelity.verdict.startswith("doubtful: 75%")


def test_the_unit_of_stamps_can_be_told_for_json_lines_of_known_fields(tmp_path: Path) -> None:
    line = {"startTime": 5_000, "endTime": 6_500, "prompt_tokens": 3, "completion_tokens": 2}
    with pytest.raises(LoadgenError, match="no unit"):
        recorded(tmp_path, json.dumps(line) + "\n", "litellm")
    (row,) = rows(recorded(tmp_path, json.dumps(line) + "\n", "litellm", time_unit="ms"))
    assert (row["unix_ns"], row["duration_ns"]) == (5 * 10**9, 1_500_000_000)


@pytest.mark.parametrize(
    "addresses", ["10.1.1.1:8000 512 1.502 200", "10.1.1.1:1, 10.1.1.2:1 0, 512 0.1, 1.3 502, 200"]
)
def test_lines_of_ingress_nginx_are_known(tmp_path: Path, addresses: str) -> None:
    text = f"{NGINX} 911 1.503 [llm-vllm-8000] [] {addresses} 4f0a\n"
    recording = recorded(tmp_path, text)
    assert recording.fidelity.format_name == "nginx"
    assert counts(recording) == (1, 0, 0)
    (row,) = rows(recording)
    assert row["unix_ns"] == 1_792_890_000 * 10**9 - 1_503_000_000
    assert (row["input_bytes"], row["output_bytes"]) == (911, 512)


def test_named_fields_are_those_of_the_catalog() -> None:
    assert set(NAMED_FIELDS) <= set(FORMATS)
