"""JSONL and CSV of any field names."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from loadgen.errors import RecordError, UsageError
from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.selection import Selection
from loadgen.record.settings import RecordSettings

BASE: dict[str, Any] = {"time_field": "t", "length_fields": {"input_tokens": "in", "output_tokens": "out"}}


def record_text(tmp_path: Path, text: str | bytes, format_name: str = "jsonl", **options: Any) -> Recording:
    path = tmp_path / f"log.{format_name}"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return record_logs([path], format_name, RecordSettings(**{**BASE, **options}))


def rows(stamps: list[Any]) -> str:
    return "".join(json.dumps({"t": stamp, "in": 3, "out": 2}) + "\n" for stamp in stamps)


@pytest.mark.parametrize(
    ("unit", "stamps"),
    [
        ("ms", [0, 1000, 2000]),
        ("s", [0, 1, 2]),
        ("auto", [1_700_000_000, 1_700_000_001, 1_700_000_002]),
        ("auto", [1_700_000_000_000, 1_700_000_001_000, 1_700_000_002_000]),
        ("auto", [1_700_000_000_000_000, 1_700_000_001_000_000, 1_700_000_002_000_000]),
        ("auto", [1_700_000_000 * 10**9, 1_700_000_001 * 10**9, 1_700_000_002 * 10**9]),
        ("auto", ["1700000000.0", "1700000001.0", "1700000002.0"]),
    ],
)
def test_one_instant_in_every_unit_gives_equal_traces(tmp_path: Path, unit: str, stamps: list[Any]) -> None:
    """F45"""
    recording = record_text(tmp_path, rows(stamps), time_unit=unit)
    assert recording.trace.arrival_ns.tolist() == [0, 10**9, 2 * 10**9]
    assert recording.trace.span_s == 2.0


def test_guessed_unit_is_told_with_span_and_rate(tmp_path: Path) -> None:
    """F45"""
    fidelity = record_text(tmp_path, rows([1_700_000_000_000, 1_700_000_002_000])).fidelity
    assert any("epoch ms" in text for text in fidelity.assumptions)
    assert (fidelity.span_s, fidelity.rate_per_s) == (2.0, 0.5)


def test_small_numbers_without_a_unit_are_refused(tmp_path: Path) -> None:
    """F45"""
    with pytest.raises(RecordError, match="no unit") as caught:
        record_text(tmp_path, rows([0, 1000, 2000]))
    assert caught.value.hint is not None
    assert "--time-unit" in caught.value.hint


@pytest.mark.parametrize(
    ("unit", "step_ns", "shift"), [("s", 10**9, 9), ("ms", 10**6, 6), ("us", 10**3, 3), ("ns", 1, 0)]
)
def test_offsets_agree_to_the_coarser_unit(tmp_path: Path, unit: str, step_ns: int, shift: int) -> None:
    """F49: 0, 0.25, 0.5 s after 2024-01-01T00:00:00.123456789, stored in s, ms, us and ns."""
    start = 1_704_067_200_123_456_789
    exact = [start, start + 250_000_000, start + 500_000_000]
    recording = record_text(tmp_path, rows([moment // 10**shift for moment in exact]), time_unit=unit)
    origin = recording.trace.metadata.origin_unix_ns
    assert origin is not None
    for moment, arrival_ns in zip(exact, recording.trace.arrival_ns.tolist(), strict=True):
        assert 0 <= moment - (origin + arrival_ns) < step_ns


def test_json_fraction_longer_than_a_float_keeps_its_digits(tmp_path: Path) -> None:
    text = '{"t": 1792889998.201389540, "in": 1, "out": 1}\n{"t": 1792889998.201389541, "in": 1, "out": 1}\n'
    assert record_text(tmp_path, text).trace.arrival_ns.tolist() == [0, 1]


def test_rows_out_of_order_are_sorted_and_counted(tmp_path: Path) -> None:
    """F46: a, c, e, b, d."""
    stamps = [0.00, 1.39, 0.01, 1.40, 0.02]
    text = "".join(
        json.dumps({"t": stamp, "in": number, "out": 10 * number}) + "\n"
        for number, stamp in enumerate(stamps, start=1)
    )
    recording = record_text(tmp_path, text, time_unit="s")
    assert recording.trace.arrival_ns.tolist() == [0, 10_000_000, 20_000_000, 1_390_000_000, 1_400_000_000]
    assert recording.trace.table.column("input_tokens").to_pylist() == [1, 3, 5, 2, 4]
    assert recording.trace.table.column("output_tokens").to_pylist() == [10, 30, 50, 20, 40]
    assert recording.trace.span_s == 1.4
    assert recording.fidelity.num_out_of_order == 2


def test_ties_keep_the_order_of_the_file(tmp_path: Path) -> None:
    """F46"""
    text = "".join(f'{{"t": 5, "in": {number}, "out": 1}}\n' for number in (3, 1, 2))
    recording = record_text(tmp_path, text, time_unit="s")
    assert recording.trace.table.column("input_tokens").to_pylist() == [3, 1, 2]


def test_one_row_far_in_the_past_comes_first(tmp_path: Path) -> None:
    """F46"""
    recording = record_text(tmp_path, rows([100, 101, 1]), time_unit="s")
    assert recording.trace.arrival_ns.tolist() == [0, 99 * 10**9, 100 * 10**9]
    assert recording.fidelity.num_out_of_order == 1


@pytest.mark.parametrize(
    ("text", "usable"),
    [
        ("", "0 usable of 0 lines"),
        ("nonsense\n\n{}\n", "0 usable of 3 lines"),
        ("[]\nnull\n", "0 usable of 2"),
    ],
)
def test_log_without_a_usable_line_is_refused_with_the_file_and_the_count(
    tmp_path: Path, text: str, usable: str
) -> None:
    """F47"""
    with pytest.raises(RecordError, match=usable) as caught:
        record_text(tmp_path, text)
    assert "log.jsonl" in caught.value.message
    assert "\n" not in caught.value.message


def test_filter_that_removes_all_rows_is_refused(tmp_path: Path) -> None:
    """F47"""
    path = tmp_path / "log.jsonl"
    path.write_text(rows([1_700_000_000]), encoding="utf-8")
    with pytest.raises(RecordError, match="0 of 1 requests are left by --since"):
        record_logs([path], "jsonl", RecordSettings(**BASE), Selection(since_ns=1_900_000_000 * 10**9))


def test_since_and_until_keep_a_half_open_interval(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(rows([1_700_000_000, 1_700_000_001, 1_700_000_002]), encoding="utf-8")
    bounds = Selection(since_ns=1_700_000_001 * 10**9, until_ns=1_700_000_002 * 10**9)
    recording = record_logs([path], "jsonl", RecordSettings(**BASE), bounds)
    assert recording.trace.num_rows == 1


@pytest.mark.parametrize(
    ("value", "length"), [("3", 3), ('"3"', 3), ("3.0", 3), ("null", None), ('""', None), ("0", 0)]
)
def test_lengths_in_quotes_and_null_are_understood(tmp_path: Path, value: str, length: int | None) -> None:
    recording = record_text(tmp_path, f'{{"t": 1700000000, "in": 1, "out": {value}}}\n')
    assert recording.trace.table.column("output_tokens").to_pylist() == [length]


@pytest.mark.parametrize("value", ["-1", '"many"', "1.5", "true", "[3]", str(2**31)])
def test_length_that_is_none_makes_its_row_malformed(tmp_path: Path, value: str) -> None:
    recording = record_text(
        tmp_path, rows([1_700_000_000]) + f'{{"t": 1700000000, "in": 1, "out": {value}}}\n'
    )
    assert (recording.fidelity.num_requests, recording.fidelity.num_malformed) == (1, 1)
    assert "many" not in recording.fidelity.malformed[0].reason


@pytest.mark.parametrize(
    "document",
    ['{"a.b": 3}', '{"a": {"b": 3}}', '{"a": 1, "a.b": 3}', '{"a": {"c": 1}, "a.b": 3}'],
)
def test_dots_are_nesting_or_part_of_a_key(tmp_path: Path, document: str) -> None:
    line = '{"t": 1700000000, ' + document.removeprefix("{")
    recording = record_text(tmp_path, line + "\n", length_fields={"input_tokens": "a.b"})
    assert recording.trace.table.column("input_tokens").to_pylist() == [3]


def test_completion_stamp_needs_a_duration(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="arrivals cannot be had"):
        record_text(tmp_path, rows([1_700_000_000]), stamp="completion")


def test_duration_is_subtracted_from_a_completion_stamp_only(tmp_path: Path) -> None:
    text = '{"t": 1700000010.0, "in": 1, "out": 1, "took_ms": 1500}\n'
    completion = record_text(tmp_path, text, stamp="completion", duration_field="took_ms").trace
    arrival = record_text(tmp_path, text, stamp="arrival", duration_field="took_ms").trace
    assert completion.metadata.origin_unix_ns == 1_700_000_008_500_000_000
    assert arrival.metadata.origin_unix_ns == 1_700_000_010_000_000_000
    assert completion.table.column("duration_ns").to_pylist() == [1_500_000_000]


def test_duration_without_a_unit_in_its_name_needs_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not tell its unit"):
        record_text(tmp_path, rows([1_700_000_000]), duration_field="latency")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_delimiter_is_seen_in_the_header(tmp_path: Path, delimiter: str) -> None:
    text = delimiter.join(["t", "in", "out"]) + "\n" + delimiter.join(["1700000000", "3", "2"]) + "\n"
    assert record_text(tmp_path, text, "csv").trace.table.column("input_tokens").to_pylist() == [3]


def test_mark_of_utf8_crlf_and_a_missing_last_line_end_are_fine(tmp_path: Path) -> None:
    recording = record_text(tmp_path, b"\xef\xbb\xbft,in,out\r\n1700000000,3,2\r\n1700000001,4,5", "csv")
    assert recording.trace.table.column("output_tokens").to_pylist() == [2, 5]


def test_quoted_line_breaks_do_not_split_a_row(tmp_path: Path) -> None:
    text = 'note,t,in,out\n"a\n""b"",\nc",1700000000,3,2\n,x,1,1\n'
    recording = record_text(tmp_path, text, "csv")
    assert recording.fidelity.num_requests == 1
    assert [(place.line, place.reason) for place in recording.fidelity.malformed] == [(5, "no date and time")]


def test_missing_column_is_named_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="no column 'out'") as caught:
        record_text(tmp_path, "t,in,answer\n1700000000,3,2\n", "csv")
    assert caught.value.hint == "there are: t, in, answer"


@pytest.mark.parametrize(
    "compress",
    [gzip.compress, bz2.compress, lzma.compress, lambda data: pa.compress(data, "zstd", asbytes=True)],
)
def test_compression_is_seen_by_the_first_bytes(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    recording = record_text(tmp_path, compress(rows([1_700_000_000, 1_700_000_001]).encode()))
    assert recording.trace.num_rows == 2


def test_cut_archive_is_refused_in_one_line(tmp_path: Path) -> None:
    """F48"""
    whole = gzip.compress(rows(list(range(1_700_000_000, 1_700_000_900))).encode())
    with pytest.raises(RecordError, match=r"log\.jsonl: cannot be read"):
        record_text(tmp_path, whole[: len(whole) // 2])


def test_same_file_twice_counts_once(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(rows([1_700_000_000, 1_700_000_000]), encoding="utf-8")
    recording = record_logs([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], "jsonl", RecordSettings(**BASE))
    assert recording.trace.num_rows == 2
    assert recording.fidelity.num_duplicates == 2
    assert "b.jsonl begins with lines that a.jsonl holds, too" in recording.fidelity.warnings[0]


def test_sessions_become_dense_numbers_by_arrival(tmp_path: Path) -> None:
    text = "".join(
        json.dumps({"t": stamp, "in": 1, "out": 1, "user": user}) + "\n"
        for stamp, user in (
            (1_700_000_002, "alice"),
            (1_700_000_001, "bob"),
            (1_700_000_003, "alice"),
            (1_700_000_004, None),
        )
    )
    recording = record_text(tmp_path, text, session_field="user")
    assert recording.trace.table.column("session").to_pylist() == [0, 1, 1, None]
    assert "alice" not in str(recording.trace.table.to_pylist()) + str(recording.trace.metadata)
