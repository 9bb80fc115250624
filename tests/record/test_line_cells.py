"""Splitting lines at spaces gives what matching them one by one gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.record.access_lines import read_access_lines
from loadgen.record.findings import Findings
from loadgen.record.formats.nginx_pattern import NginxPattern, compile_log_format
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_filter import RequestFilter

COMBINED = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$ua"'
)
FORMATS = [
    COMBINED + " rt=$request_time msec=$msec rl=$request_length bs=$bytes_sent",
    COMBINED + ' "$request_time" $request_length',
    '$msec $request_time "$request_method $uri" $status ($bytes_sent)',
    "[$time_iso8601] $request_uri $status $request_length $bytes_sent t=$request_time",
]
_CELL = st.sampled_from(
    [
        "-",
        "192.0.2.1",
        "a b",
        "",
        "rt=1.5",
        "1.503",
        "1792890001.204",
        "200",
        "499",
        "2000000000",
        "x",
        "\\x22",
    ]
)
_VALUES = {
    "time_local": st.sampled_from(["25/Oct/2026:02:00:01 +0100", "25/Oct/2026:02:00:01", "-"]),
    "time_iso8601": st.sampled_from(["2026-10-25T02:00:01+01:00", "2026-10-25 02:00:01"]),
    "request": st.sampled_from(
        ["POST /v1/chat HTTP/1.1", "GET / HTTP/1.1", "", "\\x16\\x03", "POST /caf\\xC3\\xA9 HTTP/1.1"]
    ),
    "msec": st.sampled_from(["1792890001.204", "1792890001", "-", "1e9"]),
    "request_time": st.sampled_from(["1.503", "0.000", "60.1", "-", "+1.5", "1.5e3", "1.2.3"]),
    "status": st.sampled_from(["200", "499", "000", "-", "20000"]),
    "request_length": st.sampled_from(["911", "-", "", "99999999999", "1.5"]),
    "bytes_sent": st.sampled_from(["911", "-", "", "-1"]),
}


@st.composite
def _lines(draw: st.DrawFn, log_format: str) -> bytes:
    lines = []
    for _ in range(draw(st.integers(1, 6))):
        line = log_format
        stamp = draw(_VALUES["time_local"])
        # A blank less in the stamp and one more in a name make up for each other where blanks are counted.
        cell = _CELL if " " in stamp else _CELL.filter(lambda text: " " not in text)
        line = line.replace("$time_local", stamp)
        for name in sorted(
            {
                *_VALUES,
                "remote_addr",
                "remote_user",
                "http_referer",
                "ua",
                "body_bytes_sent",
                "request_method",
                "request_uri",
                "uri",
            },
            key=len,
            reverse=True,
        ):
            line = line.replace("$" + name, draw(_VALUES.get(name, cell)))
        kind = draw(st.sampled_from(["whole"] * 6 + ["cut", "empty", "garbage", "crlf", "quote"]))
        line = {
            "whole": line,
            "cut": line[: draw(st.integers(0, len(line)))],
            "empty": "",
            "garbage": "panic: stack trace \x1b[31mred\x1b[0m",
            "crlf": line + "\r",
            "quote": line.replace('"', "", 1),
        }[kind]
        lines.append(line)
    data = "\n".join(lines) + draw(st.sampled_from(["\n", ""]))
    return data.encode("utf-8")


def _read(data: bytes, pattern: NginxPattern) -> tuple[dict[str, list[bytes]], list[str | None], Findings]:
    findings = Findings()
    columns = read_access_lines(LineBatch("log", 0, 1, data), pattern, RequestFilter(()), findings)
    values = {name: column.to_pylist() for name, column in columns.values.items()}
    return values, columns.endpoints.to_pylist(), findings


@pytest.mark.parametrize("log_format", FORMATS)
@given(st.data())
@settings(max_examples=150, deadline=None)
def test_both_ways_read_the_same(log_format: str, data: st.DataObject) -> None:
    lines = data.draw(_lines(log_format))
    pattern = compile_log_format(log_format)
    assert pattern.cells is not None
    whole = _read(lines, pattern)
    singly = _read(lines, NginxPattern(pattern.regex, pattern.names, None))
    assert whole == singly


@pytest.mark.parametrize(
    "log_format",
    [
        'ua="$http_user_agent" $msec $request_time',  # a quote within a cell
        "$msec,$request_time",  # two in one cell
        '"$request $msec $request_time',  # a quote that does not end
    ],
)
def test_what_does_not_split_is_matched(log_format: str) -> None:
    assert compile_log_format(log_format).cells is None


def test_most_lines_of_a_common_format_are_split() -> None:
    good = (
        '192.0.2.7 - - [25/Oct/2026:02:00:01 +0100] "POST /v1 HTTP/1.1" 200 812 "-" "demo/1" '
        "rt=1.503 msec=1792890001.204 rl=911 bs=1077\n"
    )
    data = (good * 3 + "cut\n" + good * 2).encode()
    pattern = compile_log_format(FORMATS[0])
    assert pattern.cells is not None
    found = pattern.cells.columns(data, 6)
    assert found is not None
    lines, columns = found
    assert lines.tolist() == [0, 1, 2, 4, 5]
    assert columns["msec"].to_pylist() == [b"1792890001.204"] * 5
    assert np.all(np.diff(lines) > 0)
