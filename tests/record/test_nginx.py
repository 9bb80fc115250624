"""nginx access logs: the stamp is the completion, and the duration leads back to the arrival."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loadgen.errors import RecordError, UsageError
from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.settings import RecordSettings

HEAD = '192.0.2.7 - - [25/Oct/2026:02:00:01 +0100] "{request}" {status} 812 "-" "demo/1"'
GOOD = HEAD.format(request="POST /v1/chat/completions?key=SECRET HTTP/1.1", status=200)


def record_lines(tmp_path: Path, lines: list[str], **options: object) -> Recording:
    path = tmp_path / "access.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return record_logs([path], "nginx", RecordSettings(**options))  # type: ignore[arg-type]  # settings by name


def test_arrival_is_completion_minus_duration_to_the_millisecond(tmp_path: Path) -> None:
    trace = record_lines(tmp_path, [GOOD + " rt=1.503 msec=1792890001.204 rl=911 bs=1077"]).trace
    assert trace.metadata.origin_unix_ns == 1_792_889_999_701_000_000
    assert trace.table.column("duration_ns").to_pylist() == [1_503_000_000]
    assert trace.table.column("input_bytes").to_pylist() == [911]
    assert trace.table.column("output_bytes").to_pylist() == [1077]
    assert trace.table.column("status").to_pylist() == [200]


def test_query_string_stays_out_of_the_trace(tmp_path: Path) -> None:
    trace = record_lines(tmp_path, [GOOD + " rt=1.5 msec=1792890001.204 rl=911 bs=1077"]).trace
    assert trace.table.column("endpoint").to_pylist() == ["/v1/chat/completions"]


@pytest.mark.parametrize(
    "tail",
    [
        " msec=1792890001.204 bs=1077 rl=911 rt=1.503",
        " rt=1.503 urt=0.010, 1.200 msec=1792890001.204 rl=911 bs=1077 x",
        ' request_time=1.503 msec=1792890001.204 request_length=911 bytes_sent=1077 "fwd 1"',
    ],
)
def test_fields_are_found_by_name_in_any_order(tmp_path: Path, tail: str) -> None:
    trace = record_lines(tmp_path, [GOOD + tail]).trace
    assert trace.metadata.origin_unix_ns == 1_792_889_999_701_000_000
    assert trace.table.column("input_bytes").to_pylist() == [911]


def test_combined_without_a_duration_is_refused_with_what_to_log(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="arrivals cannot be had") as caught:
        record_lines(tmp_path, [GOOD])
    assert caught.value.hint is not None
    assert "$request_time" in caught.value.hint


def test_completion_times_are_taken_only_when_accepted_and_then_with_a_warning(tmp_path: Path) -> None:
    lines = [GOOD + " msec=1792890001.204 rl=911 bs=1077"]
    with pytest.raises(RecordError, match="arrivals cannot be had"):
        record_lines(tmp_path, lines)
    recording = record_lines(tmp_path, lines, accept_completion_times=True)
    assert recording.trace.metadata.origin_unix_ns == 1_792_890_001_204_000_000
    assert any("completion times" in warning for warning in recording.fidelity.warnings)


def test_time_in_seconds_is_used_without_msec_and_the_verdict_says_so(tmp_path: Path) -> None:
    recording = record_lines(tmp_path, [GOOD + " rt=1.500 rl=911 bs=1077"])
    assert recording.trace.metadata.origin_unix_ns == 1_792_889_999_500_000_000
    assert recording.trace.metadata.resolution_ns == 10**9
    assert recording.fidelity.verdict.startswith("usable for rates, not for bursts")


def test_every_post_is_kept_by_default_and_others_are_counted(tmp_path: Path) -> None:
    tail = " rt=0.1 msec=1792890001.204 rl=9 bs=10"
    requests = ["POST /a HTTP/1.1", "GET /b HTTP/1.1", "", r"\x16\x03\x01", "POST /v1/x HTTP/1.1"]
    lines = [HEAD.format(request=request, status=200) + tail for request in requests]
    assert record_lines(tmp_path, lines).trace.num_rows == 2
    fidelity = record_lines(tmp_path, lines, path_prefixes=("/v1/", "/b")).fidelity
    assert (fidelity.num_requests, fidelity.num_other, fidelity.num_malformed) == (2, 3, 0)


@pytest.mark.parametrize(
    "log_format",
    [
        '$remote_addr [$time_iso8601] $request_method "$request_uri" '
        "$status $msec $request_time $request_length $bytes_sent",
        "log_format timed '$remote_addr [$time_iso8601] $request_method '\n  '\"$request_uri\" $status '\n"
        "  '$msec $request_time $request_length $bytes_sent';",
        '${remote_addr} [$time_iso8601] ${request_method} "$request_uri" '
        "$status ${msec} $request_time $request_length $bytes_sent",
    ],
)
def test_log_format_string_of_the_server_is_understood(tmp_path: Path, log_format: str) -> None:
    line = '192.0.2.7 [2026-10-25T02:00:01+01:00] POST "/v1/chat?x=1" 200 1792890001.204 1.503 911 1077'
    trace = record_lines(tmp_path, [line], log_format=log_format).trace
    assert trace.metadata.origin_unix_ns == 1_792_889_999_701_000_000
    assert trace.table.column("endpoint").to_pylist() == ["/v1/chat"]


def test_log_format_without_a_variable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \$variable"):
        record_lines(tmp_path, [GOOD], log_format="combined")


def test_crlf_line_ends_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "access.log"
    path.write_bytes((GOOD + " rt=1.503 msec=1792890001.204 rl=911 bs=1077\r\n").encode() * 2)
    assert record_logs([path], "nginx", RecordSettings()).trace.num_rows == 2


requests_strategy = st.lists(
    st.tuples(
        st.integers(1_700_000_000_000, 1_700_000_090_000),  # arrival, ms
        st.integers(0, 45_000),  # duration, ms
        st.integers(1, 10**6),
        st.integers(0, 10**6),
    ),
    min_size=1,
    max_size=40,
)


@given(requests_strategy)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_requests_logged_at_completion_are_recorded_as_they_arrived(
    tmp_path: Path, truth: list[tuple[int, int, int, int]]
) -> None:
    by_completion = sorted(truth, key=lambda one: one[0] + one[1])
    nginx, jsonl, csv = [], [], ["end;took ms;in;out"]
    for arrival_ms, duration_ms, num_in, num_out in by_completion:
        end_ms = arrival_ms + duration_ms
        end_s = f"{end_ms // 1000}.{end_ms % 1000:03d}"
        duration_s = f"{duration_ms // 1000}.{duration_ms % 1000:03d}"
        nginx.append(f"{GOOD} rt={duration_s} msec={end_s} rl={num_in} bs={num_out}")
        jsonl.append(json.dumps({"end": end_ms, "took_ms": duration_ms, "in": num_in, "out": num_out}))
        csv.append(f"{end_s};{duration_ms};{num_in};{num_out}")
    expected = sorted((arrival_ms, num_in, num_out) for arrival_ms, _, num_in, num_out in truth)
    lengths = {"input_bytes": "in", "output_bytes": "out"}
    table = {"time_field": "end", "stamp": "completion", "length_fields": lengths}
    for name, lines, options in (
        ("nginx", nginx, {}),
        ("jsonl", jsonl, {**table, "duration_field": "took_ms"}),
        ("csv", csv, {**table, "duration_field": "took ms"}),
    ):
        path = tmp_path / f"log.{name}"
        path.write_text("\n".join(lines), encoding="utf-8")
        trace = record_logs([path], name, RecordSettings(**options)).trace  # type: ignore[arg-type]  # by name
        assert trace.metadata.origin_unix_ns is not None
        got = zip(
            ((trace.arrival_ns + trace.metadata.origin_unix_ns) // 10**6).tolist(),
            trace.table.column("input_bytes").to_pylist(),
            trace.table.column("output_bytes").to_pylist(),
            strict=True,
        )
        assert sorted(got) == expected


def test_json_without_msec_is_told_to_be_coarse(tmp_path: Path) -> None:
    path = tmp_path / "access.json"
    entry = {
        "time_iso8601": "2026-10-25T01:00:00+00:00",
        "request": "POST /v1 HTTP/1.1",
        "request_time": 1.503,
    }
    path.write_text(json.dumps(entry) + "\n", encoding="utf-8")
    recording = record_logs([path], "nginx-json", RecordSettings())
    assert recording.fidelity.resolution_ns == 10**9
    assert recording.trace.metadata.arrival_from == "time_iso8601 - request_time"
    assert any("time_iso8601 has a resolution of 1 s" in text for text in recording.fidelity.warnings)
