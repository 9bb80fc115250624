"""HAProxy's and Traefik's text lines: local times, timers that were not reached, ends that are not final."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import RecordError
from support.logs import counts, recorded, rows

PREFIX = "Oct 24 20:59:59 lb1 haproxy[814]: "
END = '- - ---- 12/9/4/1/0 0/0 "POST /v1/chat/completions?key=SECRET HTTP/1.1"'
STAMP = "[24/Oct/2026:20:59:58.201]"


def line(
    timers: str = "0/0/0/210/1503",
    status: str = "200",
    sent: str = "5301",
    stamp: str = STAMP,
    end: str = END,
) -> str:
    return f"192.0.2.7:40112 {stamp} https~ llm/gpu1 {timers} {status} {sent} {end}\n"


def one(tmp_path: Path, text: str, **options: Any) -> dict[str, Any]:
    (row,) = rows(recorded(tmp_path, text, "haproxy", **{"zone": "America/New_York", **options}))
    return row


@pytest.mark.parametrize("prefix", ["", PREFIX, "<134>" + PREFIX])
def test_the_moment_in_brackets_is_the_arrival(tmp_path: Path, prefix: str) -> None:
    recording = recorded(tmp_path, prefix + line(), zone="America/New_York")
    assert recording.fidelity.format_name == "haproxy"
    (row,) = rows(recording)
    assert row["unix_ns"] == 1_792_889_998_201_000_000
    assert (row["duration_ns"], row["output_bytes"], row["status"]) == (1_503_000_000, 5301, 200)
    assert row["endpoint"] == "/v1/chat/completions"
    assert recording.trace.metadata.zone == "America/New_York"


def test_a_log_without_a_zone_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="has no zone") as caught:
        recorded(tmp_path, line(), "haproxy")
    assert "--zone" in (caught.value.hint or "")


def test_a_stamp_with_its_own_zone_needs_none(tmp_path: Path) -> None:
    row = one(tmp_path, line(stamp="[25/Oct/2026:00:59:58 +0000]"), zone=None)
    assert row["unix_ns"] == 1_792_889_998 * 10**9


@pytest.mark.parametrize(
    ("text", "column", "value"),
    [
        (line(timers="0/0/-1/-1/0"), "duration_ns", 0),
        (line(timers="0/0/0/210/+15"), "duration_ns", None),
        (line(timers="-1/-1/-1/-1/7"), "duration_ns", 7_000_000),
        (line(sent="+512"), "output_bytes", None),
        (line(sent="0"), "output_bytes", 0),
        (line(status="-1"), "status", None),
        (line(end=END.replace("0/0 ", "0/0 {demo/1 (x)|a} {} ", 1)), "endpoint", "/v1/chat/completions"),
        (line(end=END.replace("1/0 0/0", "1/+3 0/0")), "endpoint", "/v1/chat/completions"),
        (line(end=END + " 0/0000000000000000/0/0/0 llm.example.test/TLSv1.3/x"), "status", 200),
        (line(end=END[:60]), "status", 200),
        (line().replace("192.0.2.7", "2001:db8::7"), "status", 200),
    ],
)
def test_values_that_were_not_reached_or_not_final_are_unknown(
    tmp_path: Path, text: str, column: str, value: object
) -> None:
    assert one(tmp_path, text)[column] == value


@pytest.mark.parametrize("prefix", ["", PREFIX])
@pytest.mark.parametrize(
    ("text", "is_malformed"),
    [
        (line(end='- - CR-- 12/9/4/1/0 0/0 "<BADREQ>"'), False),
        (line(end='- - ---- 12/9/4/1/0 0/0 "GET /health HTTP/1.1"'), False),
        (f"192.0.2.7:40112 {STAMP} db~ pg/s1 0/0/1503 5301 -- 12/9/4/1/0 0/0\n", False),
        (f"192.0.2.7:40112 {STAMP} https/1: SSL handshake failure\n", False),
        (f"192.0.2.7:40112 {STAMP} https~ llm/gpu1 0/0/0/21\n", True),
        (f"192.0.2.7:40112 {STAMP[:9]}\n", True),
    ],
)
def test_what_is_no_request_is_told_from_what_is_damaged(
    tmp_path: Path, prefix: str, text: str, is_malformed: bool
) -> None:
    recording = recorded(tmp_path, (prefix + line()) * 3 + prefix + text, zone="UTC")
    assert counts(recording) == (3, int(not is_malformed), int(is_malformed))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PREFIX + "Server llm/gpu3 is DOWN, reason: Layer7 timeout\n", (1, 1, 0)),
        ("Oct 24 20:58:35 lb1 haproxy[81\n", (1, 0, 1)),
        ("\n", (1, 0, 1)),
    ],
)
def test_messages_of_the_program_are_other(tmp_path: Path, text: str, expected: tuple[int, int, int]) -> None:
    assert (
        counts(recorded(tmp_path, PREFIX + line() + text, "haproxy", zone="UTC", wrapper="none")) == expected
    )


def test_the_hour_that_autumn_repeats_is_settled_by_the_order_of_lines(tmp_path: Path) -> None:
    stamps = ["[25/Oct/2026:02:59:58.000]", "[25/Oct/2026:02:00:01.000]"]
    recording = recorded(
        tmp_path, "".join(line(stamp=stamp) for stamp in stamps), "haproxy", zone="Europe/Berlin"
    )
    assert [row["arrival_ns"] for row in rows(recording)] == [0, 3 * 10**9]


TRAEFIK = (
    '192.0.2.7 - - [25/Oct/2026:00:59:58 +0000] "POST /v1/chat?key=SECRET HTTP/1.1" 200 5124 "-" "demo/1" 12 '
    '"llm@docker" "http://10.0.0.2:8000" 1503ms\n'
)


def test_traefiks_text_is_told_from_nginx_and_apache_and_its_stamp_is_the_start(tmp_path: Path) -> None:
    recording = recorded(tmp_path, TRAEFIK)
    assert recording.fidelity.format_name == "traefik-clf"
    (row,) = rows(recording)
    assert row["unix_ns"] == 1_792_889_998 * 10**9
    assert (row["duration_ns"], row["output_bytes"], row["status"]) == (1_503_000_000, 5124, 200)
    assert (row["endpoint"], row["input_bytes"]) == ("/v1/chat", None)
    assert recording.fidelity.resolution_ns == 10**9


def test_traefiks_missing_values_are_unknown_and_other_lines_counted(tmp_path: Path) -> None:
    text = TRAEFIK.replace(" 200 5124 ", " - - ") + TRAEFIK.replace("POST", "GET") + "x\n"
    recording = recorded(tmp_path, text, "traefik-clf")
    assert counts(recording) == (1, 1, 1)
    assert (rows(recording)[0]["status"], rows(recording)[0]["output_bytes"]) == (None, None)
