"""Requests drawn, rendered in six formats in the order of completion, and recorded: equal to what was drawn."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.record.recorder import record_logs
from loadgen.record.settings import RecordSettings

MS = 10**6
BERLIN = ZoneInfo("Europe/Berlin")
KOLKATA = ZoneInfo("Asia/Kolkata")
# Around the end of summer time, where the hour from 2 to 3 comes twice.
START_NS = 1_792_889_000 * 10**9


@dataclass(frozen=True)
class Request:
    arrival_ns: int
    duration_ns: int
    num_in: int
    num_out: int
    status: int

    @property
    def end_ns(self) -> int:
        return self.arrival_ns + self.duration_ns


REQUESTS = st.lists(
    st.builds(
        Request,
        # Ties and bursts; whole ms, which every one of the formats holds.
        arrival_ns=st.integers(0, 3000).map(lambda ms: START_NS + ms * MS) | st.just(START_NS),
        duration_ns=st.integers(1, 60_000).map(lambda ms: ms * MS),
        num_in=st.integers(0, 10**6),
        num_out=st.integers(0, 10**6),
        status=st.sampled_from([200, 429, 499, 503]),
    ),
    min_size=1,
    max_size=25,
)


def iso(ns: int, zone: Any = UTC) -> str:
    moment = datetime.fromtimestamp(ns // 10**9, UTC).astimezone(zone)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns % 10**9 // MS:03d}"


def seconds(ns: int) -> str:
    return f"{ns // 10**9}.{ns % 10**9 // MS:03d}"


def nginx(request: Request) -> str:
    local = datetime.fromtimestamp(request.end_ns // 10**9, BERLIN)
    return (
        f'192.0.2.7 - - [{local:%d/Oct/%Y:%H:%M:%S %z}] "POST /v1/chat HTTP/1.1" {request.status} 5 "-" "d" '
        f"rt={seconds(request.duration_ns)} msec={seconds(request.end_ns)} rl={request.num_in} bs={request.num_out}"
    )


def envoy(request: Request) -> str:
    return (
        f'[{iso(request.arrival_ns)}Z] "POST /v1/chat HTTP/2" {request.status} - {request.num_in} '
        f'{request.num_out} {request.duration_ns // MS} 210 "192.0.2.7" "d" "id" "llm" "10.0.2.1:8000"'
    )


def traefik(request: Request) -> str:
    return json.dumps(
        {
            "StartUTC": iso(request.arrival_ns).rstrip("0").rstrip(".") + "Z",
            "Duration": request.duration_ns, "DownstreamStatus": request.status, "RequestMethod": "POST",
            "RequestPath": "/v1/chat", "RequestContentSize": request.num_in,
            "DownstreamContentSize": request.num_out, "time": "2026-10-25T02:59:59+02:00",
        }
    )  # fmt: skip


def caddy(request: Request) -> str:
    return (
        f'{{"level":"info","ts":{seconds(request.end_ns)},"msg":"handled request",'
        f'"request":{{"method":"POST","uri":"/v1/chat?key=1"}},"bytes_read":{request.num_in},'
        f'"duration":{seconds(request.duration_ns)},"size":{request.num_out},"status":{request.status}}}'
    )


def csv_local(request: Request) -> str:
    """Stamps of completion in a zone without a mark, with a column of text between."""
    return (
        f'"{iso(request.end_ns, KOLKATA)}";"a ""b"";";{request.duration_ns // MS};{request.num_in};'
        f"{request.num_out};{request.status}"
    )


def jsonl_ms(request: Request) -> str:
    document = {
        "meta": {"t": str(request.arrival_ns // MS)}, "took_ms": request.duration_ns // MS, "code": request.status,
        "sizes": {"prompt.tokens": request.num_in, "completion.tokens": str(request.num_out)}, "text": "häh\n",
    }  # fmt: skip
    return json.dumps(document, ensure_ascii=False)


FIELDS = RecordSettings(
    time_field="meta.t", duration_field="took_ms", status_field="code",
    length_fields={"input_tokens": "sizes.prompt.tokens", "output_tokens": "sizes.completion.tokens"},
)  # fmt: skip
COLUMNS = RecordSettings(
    time_field="end", duration_field="took_ms", stamp="completion", zone="Asia/Kolkata", status_field="code",
    length_fields={"input_tokens": "in", "output_tokens": "out"},
)  # fmt: skip
FORMATS: dict[str, tuple[Callable[[Request], str], str, RecordSettings, str]] = {
    "nginx": (nginx, "nginx", RecordSettings(), ""),
    "envoy": (envoy, "envoy", RecordSettings(), ""),
    "traefik": (traefik, "traefik", RecordSettings(), ""),
    "caddy": (caddy, "caddy", RecordSettings(), ""),
    "csv": (csv_local, "csv", COLUMNS, "end;note;took_ms;in;out;code\n"),
    "jsonl": (jsonl_ms, "jsonl", FIELDS, ""),
}


@pytest.mark.parametrize("name", FORMATS)
@given(requests=REQUESTS, cut=st.integers(0, 25))
@settings(max_examples=40, deadline=None)
def test_recorded_is_what_was_drawn(
    tmp_path_factory: pytest.TempPathFactory, name: str, requests: list[Request], cut: int
) -> None:
    render, format_name, options, header = FORMATS[name]
    folder: Path = tmp_path_factory.mktemp("truth")
    done = sorted(requests, key=lambda request: request.end_ns)
    # In two files, the newer first; no line is in both, since that would be a copy of it.
    older = [replace(request, num_out=2 * request.num_out) for request in done[:cut]]
    newer = [replace(request, num_out=2 * request.num_out + 1) for request in done[cut:]]
    parts = [part for part in (newer, older) if part]
    paths = []
    for number, part in enumerate(parts):
        paths.append(folder / f"log.{number}")
        paths[-1].write_text(header + "".join(render(request) + "\n" for request in part), encoding="utf-8")
    trace = record_logs(paths, format_name, options).trace
    kind = "tokens" if name in ("csv", "jsonl") else "bytes"
    table = trace.table
    read = (f"input_{kind}", f"output_{kind}", "duration_ns", "status")
    columns = [table.column(column).to_pylist() for column in read]
    origin_ns = trace.metadata.origin_unix_ns
    assert origin_ns is not None
    found = list(zip((trace.arrival_ns + origin_ns).tolist(), *columns, strict=True))
    expected = [
        (request.arrival_ns, request.num_in, request.num_out, request.duration_ns, request.status)
        for request in older + newer
    ]
    assert sorted(found) == sorted(expected)
    assert [row[0] for row in found] == sorted(row[0] for row in found)


def test_the_hour_that_comes_twice_is_told_by_the_order_of_lines(tmp_path: Path) -> None:
    first = datetime(2026, 10, 25, 0, 10, tzinfo=UTC)
    moments = [first + timedelta(minutes=5 * step) for step in range(24)]
    path = tmp_path / "log.csv"
    lines = "".join(f"{moment.astimezone(BERLIN):%Y-%m-%d %H:%M:%S},1\n" for moment in moments)
    path.write_text("t,in\n" + lines, encoding="utf-8")
    trace = record_logs(
        [path],
        "csv",
        RecordSettings(time_field="t", zone="Europe/Berlin", length_fields={"input_tokens": "in"}),
    ).trace
    assert trace.arrival_ns.tolist() == [300 * step * 10**9 for step in range(24)]
