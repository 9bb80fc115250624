"""Rotated files: any order, nothing twice, true ties kept."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.settings import RecordSettings

SETTINGS = RecordSettings(time_field="t", length_fields={"input_tokens": "in"})


def line(moment: int, tokens: int = 1) -> str:
    return f'{{"t": {1_700_000_000 + moment}, "in": {tokens}}}\n'


def lines(first: int, last: int) -> str:
    return "".join(line(moment) for moment in range(first, last))


def record(folder: Path, **texts: str | bytes) -> Recording:
    """Files by name (_ for .), given newest first."""
    paths = []
    for name, text in texts.items():
        path = folder / name.replace("_", ".")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        paths.append(path)
    return record_logs(paths, "jsonl", SETTINGS)


def moments(recording: Recording) -> list[int]:
    trace = recording.trace
    assert trace.metadata.origin_unix_ns is not None
    return [
        int(ns // 10**9) for ns in trace.arrival_ns + (trace.metadata.origin_unix_ns - 1_700_000_000 * 10**9)
    ]


def test_the_tenth_file_comes_before_the_second(tmp_path: Path) -> None:
    recording = record(tmp_path, app_log=lines(20, 22), app_log_2=lines(10, 20), app_log_10=lines(0, 10))
    assert moments(recording) == list(range(22))
    assert recording.fidelity.num_out_of_order == 0
    assert [source.name for source in recording.trace.metadata.sources] == [
        "app.log.10",
        "app.log.2",
        "app.log",
    ]


@pytest.mark.parametrize(
    ("old", "new", "num_repeated"),
    [
        (lines(0, 10), lines(7, 20), 3),  # the end of the copy is the start of the log
        (lines(0, 10), lines(0, 20), 10),  # the log was not cut at all
        (lines(0, 20), lines(0, 20), 20),  # a file given twice
        (lines(0, 20), lines(5, 9), 4),  # wholly within the other
        (lines(0, 10), lines(10, 20), 0),
        (lines(0, 10), lines(9, 10) + lines(11, 20), 1),
        # Begins like a part of the other, and goes on otherwise: no copy.
        (lines(0, 10), lines(4, 6) + lines(11, 20), 0),
    ],
)
def test_what_a_copy_repeats_counts_once(tmp_path: Path, old: str, new: str, num_repeated: int) -> None:
    recording = record(tmp_path, app_log=new, app_log_1=old)
    expected = [*old.splitlines(), *new.splitlines()[num_repeated:]]
    assert recording.fidelity.num_requests == len(expected)
    assert recording.fidelity.num_duplicates == num_repeated
    assert recording.fidelity.num_lines == len(old.splitlines()) + len(new.splitlines())
    assert recording.trace.metadata.counts["duplicates"] == num_repeated


def test_a_compressed_copy_beside_its_file_counts_once(tmp_path: Path) -> None:
    recording = record(tmp_path, app_log_1=lines(0, 10), app_log_1_gz=gzip.compress(lines(0, 10).encode()))
    assert (recording.fidelity.num_requests, recording.fidelity.num_duplicates) == (10, 10)


def test_equal_lines_within_one_file_are_requests_of_their_own(tmp_path: Path) -> None:
    recording = record(tmp_path, app_log_1=lines(0, 3) + line(2) * 4, app_log=lines(3, 5))
    assert moments(recording) == [0, 1, 2, 2, 2, 2, 2, 3, 4]
    assert recording.fidelity.num_duplicates == 0


def test_ties_of_the_copys_end_stay_as_many_as_they_were(tmp_path: Path) -> None:
    tied = lines(0, 3) + line(5) * 3
    recording = record(tmp_path, app_log_1=tied, app_log=line(5) * 3 + lines(6, 8))
    assert moments(recording) == [0, 1, 2, 5, 5, 5, 6, 7]
    assert recording.fidelity.num_duplicates == 3


def test_headers_of_tables_are_no_repetition(tmp_path: Path) -> None:
    paths = []
    for name, first in (("a.csv", 0), ("b.csv", 5)):
        paths.append(tmp_path / name)
        rows = "".join(f"{1_700_000_000 + moment},1\n" for moment in range(first, first + 5))
        paths[-1].write_text("t,in\n" + rows, encoding="utf-8")
    recording = record_logs(paths, "csv", SETTINGS)
    assert (recording.fidelity.num_requests, recording.fidelity.num_duplicates) == (10, 0)


def test_places_of_malformed_lines_count_those_left_out(tmp_path: Path) -> None:
    recording = record(tmp_path, app_log_1=lines(0, 10), app_log=lines(8, 12) + "broken\n")
    (place,) = recording.fidelity.malformed
    assert (place.source, place.line) == ("app.log", 5)


def test_a_clock_that_went_back_and_a_silence_are_told(tmp_path: Path) -> None:
    recording = record(tmp_path, app_log=lines(100, 200) + lines(50, 100) + lines(9000, 9002))
    warnings = " ".join(recording.fidelity.warnings)
    assert "the clock of the log went back once" in warnings
    assert "nothing arrived for 2 h 26 min" in warnings
