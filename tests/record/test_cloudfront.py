"""CloudFront: columns by the header of each file, time - time-taken, and what is no request."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.errors import RecordError
from support.logs import counts, recorded, rows

HEADER = (
    "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes cs-method cs-uri-stem sc-status cs-bytes "
)
HEADER += "time-taken\n"
LINE = "2026-10-25\t01:00:00\tFRA2-C1\t5301\tPOST\t/v1/chat\t200\t911\t1.503\n"


def test_the_time_taken_is_subtracted_from_the_moment_of_the_line(tmp_path: Path) -> None:
    recording = recorded(tmp_path, HEADER + LINE + LINE.replace("POST", "GET"))
    assert recording.fidelity.format_name == "cloudfront"
    assert counts(recording) == (1, 3, 0)
    (row,) = rows(recording)
    assert row["unix_ns"] == 1_792_890_000 * 10**9 - 1_503_000_000
    assert (row["input_bytes"], row["output_bytes"], row["status"]) == (911, 5301, 200)
    assert row["endpoint"] == "/v1/chat"
    assert recording.fidelity.resolution_ns == 10**9


@pytest.mark.parametrize(
    "damaged",
    [
        "short\tline\n",
        LINE.replace("1.503", "-"),
        LINE.replace("01:00:00", "25:00:00"),
        LINE.replace("911", "x"),
    ],
)
def test_a_damaged_line_is_malformed(tmp_path: Path, damaged: str) -> None:
    assert counts(recorded(tmp_path, HEADER + LINE + damaged)) == (1, 2, 1)


def test_columns_may_change_within_a_log_and_have_to_be_there(tmp_path: Path) -> None:
    other = "#Fields: time date cs-method cs-uri-stem time-taken x-edge-location\n"
    text = HEADER + LINE + other + "01:00:02\t2026-10-25\tPOST\t/v1\t0.5\tFRA\n"
    assert [row["input_bytes"] for row in rows(recorded(tmp_path, text))] == [911, None]
    with pytest.raises(RecordError, match="time-taken"):
        recorded(tmp_path, "#Fields: date time x-edge-location cs-method cs-uri-stem\n")
    with pytest.raises(RecordError, match="no #Fields before it"):
        recorded(tmp_path, LINE, "cloudfront")
