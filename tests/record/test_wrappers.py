"""Wrappers: recognised, taken off first, one within the other, with the moment of the innermost."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import UsageError
from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch
from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.settings import RecordSettings
from loadgen.record.wrappers.catalog import WRAPPERS, find_wrapper
from loadgen.record.wrappers.elements import elements
from loadgen.record.wrappers.syslog import SyslogWrapper

CADDY = json.dumps(
    {
        "ts": 1792890001.5,
        "request": {"method": "POST", "uri": "/v1/chat"},
        "bytes_read": 40,
        "duration": 0.5,
        "size": 80,
        "status": 200,
    }
)
STAMP = "2026-10-25T01:00:02.000000001Z"
Wrap = Callable[[str], str]


def docker(line: str) -> str:
    return json.dumps({"log": line + "\n", "stream": "stdout", "time": STAMP})


def cri(line: str) -> str:
    return f"{STAMP} stdout P {line[:20]}\n{STAMP} stdout F {line[20:]}"


def journald(line: str) -> str:
    return json.dumps({"__REALTIME_TIMESTAMP": "1792890002000000", "MESSAGE": line})


def cloudwatch(line: str) -> str:
    events = [{"timestamp": 1792890002000, "message": part, "ingestionTime": 1} for part in line.split("\n")]
    return json.dumps({"events": events}, indent=1)


def loki(line: str) -> str:
    values = [["1792890002000000000", part] for part in line.split("\n")]
    return json.dumps({"data": {"result": [{"stream": {"a": "b"}, "values": values}]}})


def rfc5424(line: str) -> str:
    return f'<134>1 2026-10-25T01:00:02.5Z host app 814 - [a@1 b="]\\"" c="d"][e] \ufeff{line}'


def rfc3164(line: str) -> str:
    return f"<134>Oct 25 01:00:02 host app[814]: {line}"


def rsyslog(line: str) -> str:
    return f"2026-10-25T03:00:02.5+02:00 host app: {line}"


def stamped(line: str) -> str:
    return f"{STAMP} {line}"


def array(line: str) -> str:
    return "[\n" + line.replace("\n", ",\n") + "\n]"


def data(line: str) -> str:
    return json.dumps({"object": "list", "data": [json.loads(part) for part in line.split("\n")]}, indent=2)


def record_text(tmp_path: Path, text: str, format_name: str = "auto", **options: Any) -> Recording:
    path = tmp_path / "a.log"
    path.write_text(text, encoding="utf-8")
    return record_logs([path], format_name, RecordSettings(**options))


ONE = [docker, cri, journald, cloudwatch, loki, rfc5424, rfc3164, rsyslog, stamped, array, data]
NESTED = [
    (docker, cloudwatch),
    (rfc5424, cri),
    (rfc3164, cri),
    (rfc3164, docker),
    (rsyslog, journald),
    (rfc5424, loki),
    (docker, stamped),
    (docker, array),
    (rfc5424, docker, cloudwatch),
]


@pytest.mark.parametrize("wraps", [*[(one,) for one in ONE], *NESTED])
def test_a_known_format_is_recognised_within_any_wrapping(tmp_path: Path, wraps: Sequence[Wrap]) -> None:
    text = CADDY
    for wrap in wraps:
        text = wrap(text)
    recording = record_text(tmp_path, text + "\n")
    assert recording.fidelity.format_name == "caddy"
    assert recording.trace.metadata.origin_unix_ns == 1_792_890_001_000_000_000
    assert (recording.fidelity.num_other, recording.fidelity.num_malformed) == (0, 0)


@pytest.mark.parametrize(
    ("wraps", "written_ns"),
    [
        ((docker,), 2_000_000_001),
        ((rfc5424,), 2_500_000_000),
        ((rsyslog,), 2_500_000_000),
        ((stamped,), 2_000_000_001),
        ((rfc5424, cri), 2_500_000_000),
        # RFC 3164 tells neither year nor zone: what carried it does.
        ((rfc3164, cri), 2_000_000_001),
        ((lambda line: f"<1>1 - - - - - - {line}", docker), 2_000_000_001),
    ],
)
def test_the_moment_of_the_innermost_wrapper_that_tells_one_counts(
    tmp_path: Path, wraps: Sequence[Wrap], written_ns: int
) -> None:
    text = '{"in": 3}'
    for wrap in wraps:
        text = wrap(text)
    options: dict[str, Any] = {"time_field": "@written", "length_fields": {"input_tokens": "in"}}
    trace = record_text(tmp_path, text + "\n", "jsonl", **options).trace
    assert trace.metadata.origin_unix_ns == 1_792_890_000_000_000_000 + written_ns


def test_wrappers_can_be_named_the_outermost_first(tmp_path: Path) -> None:
    text = "\n".join([cri(rfc3164(CADDY)), cri("plain")])
    fidelity = record_text(tmp_path, text, "caddy", wrapper="cri,syslog").fidelity
    # What is no syslog line in a wrapper is another kind of line, not a broken one.
    assert (fidelity.num_requests, fidelity.num_other, fidelity.num_malformed) == (1, 1, 0)


def test_a_log_of_errors_beside_the_access_log_in_a_wrapper_is_other(tmp_path: Path) -> None:
    access = (
        '192.0.2.7 - - [25/Oct/2026:02:00:01 +0100] "POST /v1 HTTP/1.1" 200 8 "-" "a" '
        "rt=1.503 msec=1792890001.204 rl=911 bs=1077"
    )
    text = "\n".join(
        [cri(access), cri("2026/10/25 02:00:01 [error] 29#29: *1 upstream timed out"), cri(access)]
    )
    fidelity = record_text(tmp_path, text).fidelity
    assert (fidelity.num_requests, fidelity.num_other, fidelity.num_malformed) == (2, 1, 0)


def test_an_outermost_line_of_another_kind_is_malformed(tmp_path: Path) -> None:
    lines = [rfc3164(CADDY), rfc3164(CADDY), "Oct 25 00:59:59 ho", rfc3164(CADDY)]
    fidelity = record_text(tmp_path, "\n".join(lines)).fidelity
    assert (fidelity.num_requests, fidelity.num_malformed) == (3, 1)
    assert fidelity.malformed[0].line == 3


def test_a_fault_within_two_wrappers_is_named_by_its_line_in_the_file(tmp_path: Path) -> None:
    text = "\n".join(cri(docker(line)) for line in ("x", CADDY, '{"ts":'))
    assert [place.line for place in record_text(tmp_path, text).fidelity.malformed] == [6]


def test_a_wrapper_that_there_is_not_is_refused_with_advice() -> None:
    with pytest.raises(UsageError, match="cri,systemd") as caught:
        find_wrapper("cri,systemd", [])
    assert "cri,syslog" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "lines",
    [
        [CADDY],
        ["INFO 10-25 00:59:58 [logger.py:42] Received request a: prompt: 'x', prompt_token_ids: [1, 2]"],
        ["[2026-10-25 00:59:58] Finish: obj=G(rid='1f'), out={}"],
        ["2026-10-25T01:00:00Z INFO app: text"],
        ["2026-10-25T01:00:00Z  WARN app: text"],
        ["2026-10-25 00:59:58,3,2"],
        ['{"resourceSpans":[{"scopeSpans":[]}]}', '{"resourceSpans":[{"scopeSpans":[]}]}'],
        ['{"resourceSpans":[{"scope', '{"resourceSpans":[{"scopeSpans":[]}]}'],
        ['[2026-10-25T00:59:58.201Z] "POST /v1 HTTP/2" 200 - 402 5124 1503 210 "192.0.2.7" "demo/1"'],
    ],
)
def test_a_bare_log_is_left_alone(lines: list[str]) -> None:
    assert find_wrapper("auto", [line.encode() for line in lines]) is None


@pytest.mark.parametrize(
    ("wrapped", "inner"),
    [
        ("<34>1 2026-10-25T00:59:59Z h a p m - x y", "x y"),
        ("1 2026-10-25T00:59:59.123456+02:00 h a - - [x] x", "x"),
        ("<34>1 2026-10-25T00:59:59Z h a p m -", ""),
        ("Oct  5 00:59:59 h su: x", "x"),
        ("Oct 25 00:59:59 h haproxy[814]: 192.0.2.7:1 [x]: y", "192.0.2.7:1 [x]: y"),
        ("<13>2026-10-25T00:59:59Z h a[1]: x", "x"),
    ],
)
def test_forms_of_syslog_lines(wrapped: str, inner: str) -> None:
    (batch,) = SyslogWrapper.unwrap([LineBatch("a", 0, 1, wrapped.encode() + b"\n")], Findings())
    assert batch.lines() == [inner.encode()]


def test_a_line_whose_end_never_came_is_not_lost(tmp_path: Path) -> None:
    text = docker(CADDY) + "\n" + json.dumps({"log": CADDY, "stream": "stdout", "time": STAMP}) + "\n"
    assert record_text(tmp_path, text).fidelity.num_requests == 2
    assert (
        record_text(tmp_path, f"{STAMP} stdout F {CADDY}\n{STAMP} stdout P {CADDY}\n").fidelity.num_requests
        == 2
    )


def test_a_document_longer_than_what_is_looked_at_is_recognised(tmp_path: Path) -> None:
    text = cloudwatch("\n".join([CADDY] * 3000))
    assert len(text) > 1 << 19
    fidelity = record_text(tmp_path, text).fidelity
    assert (fidelity.format_name, fidelity.num_requests, fidelity.num_malformed) == ("caddy", 3000, 0)


def test_a_document_that_is_cut_keeps_what_is_whole(tmp_path: Path) -> None:
    text = cloudwatch("\n".join([CADDY] * 3))
    fidelity = record_text(tmp_path, text[: text.rindex("POST")]).fidelity
    assert (fidelity.num_requests, fidelity.num_malformed) == (2, 1)


def test_several_files_of_one_array_each_are_one_log(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("b.json", "a.json")]
    for path, moment in zip(paths, (1792890001.5, 1792890000.5), strict=True):
        path.write_text(array(json.dumps(json.loads(CADDY) | {"ts": moment})), encoding="utf-8")
    trace = record_logs(paths, "auto", RecordSettings()).trace
    assert [source.name for source in trace.metadata.sources] == ["a.json", "b.json"]
    assert trace.arrival_ns.tolist() == [0, 1_000_000_000]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=60)
@given(
    arrays=st.lists(st.lists(values, max_size=4), min_size=1, max_size=3),
    indent=st.sampled_from([None, 1]),
    num_lines=st.integers(1, 4),
    key=st.sampled_from(["", "data"]),
)
def test_elements_are_those_of_the_document_wherever_it_is_cut(
    arrays: list[list[Any]], indent: int | None, num_lines: int, key: str
) -> None:
    documents = arrays if not key else [{"a": 1, key: one, "z": {"y": 2}} for one in arrays]
    text = "\n".join(json.dumps(document, indent=indent) for document in documents)
    lines = text.encode().splitlines(keepends=True)
    batches = [
        LineBatch("a", 0, start + 1, b"".join(lines[start : start + num_lines]))
        for start in range(0, len(lines), num_lines)
    ]
    findings = Findings()
    found = [element for _, of_batch in elements(batches, (key,), findings) for element in of_batch]
    assert [element.value for element in found] == [value for one in arrays for value in one]
    assert [json.loads(element.text) for element in found] == [element.value for element in found]
    assert all(lines[element.line - 1].strip() for element in found)
    assert findings.num_malformed == 0


def test_an_element_that_is_no_json_is_one_fault_and_the_next_is_read() -> None:
    text = b'[{"a": 1},\n{"a": "b"c"},\n{"a": 2}]'
    findings = Findings()
    found = [
        one.value
        for _, of_batch in elements([LineBatch("a", 0, 1, text)], ("",), findings)
        for one in of_batch
    ]
    assert found == [{"a": 1}, {"a": 2}]
    assert [place.line for place in findings.malformed] == [2]


def test_every_wrapper_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "recording.md").read_text(encoding="utf-8")
    assert [name for name in WRAPPERS if f"| {name} |" not in page] == []


def test_entries_of_logcli_are_put_in_order(tmp_path: Path) -> None:
    """Newest first as they are, an answer would come before its request."""
    lines = [
        "INFO 10-25 00:59:59 [logger.py:68] Generated response a (streaming complete): output_token_ids: [9, 4]",
        "INFO 10-25 00:59:58 [logger.py:42] Received request a: prompt: 'x', prompt_token_ids: [1, 2, 3], x",
    ]
    stamps = ["2026-10-25T02:59:59.1+02:00", "2026-10-25T00:59:58.704511544Z"]
    path = tmp_path / "out.jsonl"
    entries = [
        json.dumps({"labels": {"app": "vllm"}, "line": line, "timestamp": stamp})
        for line, stamp in zip(lines, stamps, strict=True)
    ]
    path.write_text("\n".join([*entries, '{"labels": {}, "li']) + "\n", encoding="utf-8")
    recording = record_logs([path], "auto", RecordSettings(year=2026, zone="UTC"))
    assert recording.trace.table.column("input_tokens").to_pylist() == [3]
    assert recording.trace.table.column("output_tokens").to_pylist() == [2]
    assert recording.fidelity.num_malformed == 1


def test_moment_of_logcli_is_the_time_of_the_entry(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    line = '{"took_ms": 500, "in": 3}'
    path.write_text(json.dumps({"labels": {}, "line": line, "timestamp": STAMP}) + "\n", encoding="utf-8")
    settings = RecordSettings(
        time_field="@written",
        stamp="completion",
        duration_field="took_ms",
        length_fields={"input_tokens": "in"},
    )
    recording = record_logs([path], "jsonl", settings)
    assert recording.trace.metadata.origin_unix_ns == 1_792_890_001_500_000_001
