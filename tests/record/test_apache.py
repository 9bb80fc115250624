"""Apache: which moment each time token tells, what the numbers behind the agent are, and damaged stamps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import RecordError, UsageError
from support.logs import counts, recorded, rows

COMMON = '192.0.2.7 - - [25/Oct/2026:02:59:58 +0200] "POST /v1/chat HTTP/1.1" 200 812 "-" "demo/1"'
START_NS = 1_792_889_998 * 10**9
REQUEST = '"POST /v1/chat HTTP/1.1"'


def test_stamp_is_the_arrival_and_its_duration_is_not_subtracted(tmp_path: Path) -> None:
    (row,) = rows(recorded(tmp_path, COMMON + " 911 1503122\n", "apache"))
    assert (row["unix_ns"], row["duration_ns"], row["input_bytes"]) == (START_NS, 1_503_122_000, 911)


def test_format_string_is_understood(tmp_path: Path) -> None:
    line = f"[25/Oct/2026:02:59:58 +0200] {REQUEST} 200 911 5301 2\n"
    (row,) = rows(recorded(tmp_path, line, "apache", log_format='%t \\"%r\\" %>s %I %O %T'))
    assert (row["duration_ns"], row["output_bytes"]) == (2 * 10**9, 5301)


@pytest.mark.parametrize(
    ("times", "text", "arrival_ns", "resolution_ns", "marks"),
    [
        ("%{usec}t", "1792889998201389", START_NS + 201_389_000, 1000, "arrival"),
        ("%{begin:msec}t", "1792889998201", START_NS + 201_000_000, 10**6, "arrival"),
        ("%{sec}t.%{usec_frac}t", "1792889998.201389", START_NS + 201_389_000, 1000, "arrival"),
        ("%{%s}t", "1792889998", START_NS, 10**9, "arrival"),
        ("%t %{msec_frac}t", "[25/Oct/2026:02:59:58 +0200] 201", START_NS + 201_000_000, 10**6, "arrival"),
        (
            "[%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t]",
            "[25/Oct/2026 02:59:58.201 +0200]",
            START_NS + 201_000_000,
            10**6,
            "arrival",
        ),
        ("%{%Y-%m-%dT%H:%M:%S%z}t", "2026-10-25T02:59:58+0200", START_NS, 10**9, "arrival"),
        ("%{%F}tT%{%T}t.%{usec_frac}tZ", "2026-10-25T00:59:58.000001Z", START_NS + 1000, 1000, "arrival"),
        ("%{%e %B %Y %I:%M:%S %p %Z}t", "25 October 2026 12:59:58 AM UTC", START_NS, 10**9, "arrival"),
        ("%t %{end:usec}t", "[25/Oct/2026:02:59:58 +0200] 1792889999704511", START_NS, 10**9, "arrival"),
        ("%{end:usec}t", "1792889999704511", START_NS + 201_389_000, 1000, "completion"),
        (
            "[%{end:%d/%b/%Y:%H:%M:%S}t.%{end:usec_frac}t]",
            "[25/Oct/2026:00:59:59.704511]",
            START_NS + 201_389_000,
            1000,
            "completion",
        ),
    ],
)
def test_times_of_any_form(
    tmp_path: Path, times: str, text: str, arrival_ns: int, resolution_ns: int, marks: str
) -> None:
    log_format = f'{times} "%r" %>s %{{Content-Length}}i %O %Dus'
    line = f"{text} {REQUEST} 200 402 5301 1503122us\n"
    recording = recorded(tmp_path, line, "apache", log_format=log_format, zone="UTC")
    (row,) = rows(recording)
    assert (row["unix_ns"], row["duration_ns"]) == (arrival_ns, 1_503_122_000)
    assert (row["input_bytes"], row["output_bytes"]) == (402, 5301)
    assert recording.fidelity.resolution_ns == resolution_ns
    assert recording.trace.metadata.stamp_marks == marks


@pytest.mark.parametrize(
    ("log_format", "reason"),
    [
        ("%{end:usec}t %r %I", "no duration"),
        ("%r %I", "no whole time"),
        ("%{%H:%M:%S}t %r", "no whole time"),
        ("%{msec_frac}t %r", "no whole time"),
        ("%{%Y-%m-%d %H:%M:%S %k}t %r", "%k is not understood"),
    ],
)
def test_format_string_that_tells_no_arrival_is_refused(tmp_path: Path, log_format: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        recorded(tmp_path, COMMON, "apache", log_format=log_format)


def test_completion_times_are_taken_when_accepted(tmp_path: Path) -> None:
    options: dict[str, Any] = {"log_format": '%{end:usec}t "%r" %I', "accept_completion_times": True}
    recording = recorded(tmp_path, f"1792889999704511 {REQUEST} 402\n", "apache", **options)
    assert rows(recording)[0]["unix_ns"] == 1_792_889_999_704_511_000
    assert any("bursts are smeared" in warning for warning in recording.fidelity.warnings)


def test_a_time_without_a_zone_needs_one(tmp_path: Path) -> None:
    log_format = '%{%d/%b/%Y:%H:%M:%S}t "%r"'
    line = f"25/Oct/2026:02:30:00 {REQUEST}\n"
    with pytest.raises(RecordError, match="has no zone"):
        recorded(tmp_path, line, "apache", log_format=log_format)
    # In the hour that autumn repeats the order of lines decides.
    text = line.replace("02:30", "02:20") + line.replace("02:30", "02:50") + line.replace("02:30", "02:20")
    recording = recorded(tmp_path, text, "apache", log_format=log_format, zone="Europe/Berlin")
    first, second, third = (row["unix_ns"] // 10**9 // 60 for row in rows(recording))
    assert (second - first, third - first) == (30, 60)


BODIES = [812, 5301, 96]


@pytest.mark.parametrize(
    ("lasts", "column", "values"),
    [
        ([1012, 5550, 340], "output_bytes", [1012, 5550, 340]),
        ([1_503_122, 5550, 340], "duration_ns", [1_503_122_000, 5_550_000, 340_000]),
    ],
    ids=["%I %O", "%I %D"],
)
def test_two_numbers_behind_the_agent_are_told_apart_by_the_size_of_the_answer(
    tmp_path: Path, lasts: list[int], column: str, values: list[int]
) -> None:
    text = "".join(
        COMMON.replace(" 812 ", f" {body} ") + f" 911 {last}\n"
        for body, last in zip(BODIES, lasts, strict=True)
    )
    recording = recorded(tmp_path, text, "apache")
    assert [row[column] for row in rows(recording)] == values
    assert (rows(recording)[0]["duration_ns"] is None) == (column == "output_bytes")
    told = " ".join(recording.fidelity.assumptions)
    assert ("%I %O" if column == "output_bytes" else "%I %D") in told
    assert "--log-format overrides" in told


def test_a_date_that_is_none_is_one_malformed_line(tmp_path: Path) -> None:
    bad = COMMON.replace("25/Oct", "35/Oct")
    recording = recorded(tmp_path, f"{COMMON} 9 9\n{bad} 9 9\n{COMMON} 9 9\n", "apache")
    assert counts(recording) == (2, 0, 1)
    assert recording.fidelity.malformed[0].line == 2


@pytest.mark.parametrize("format_name", ["nginx", "envoy"])
def test_a_date_that_is_none_is_malformed_in_nginx_and_envoy_too(tmp_path: Path, format_name: str) -> None:
    line = {
        "nginx": COMMON + " rt=1.5 rl=9 bs=9\n",
        "envoy": '[2026-10-25T00:59:58Z] "POST /v1 HTTP/2" 200 - 402 51 1503 2 "-" "-" "-" "-" "-"\n',
    }[format_name]
    bad = line.replace("25/Oct", "35/Oct").replace("10-25", "10-35")
    assert counts(recorded(tmp_path, line + bad + line, format_name)) == (2, 0, 1)
