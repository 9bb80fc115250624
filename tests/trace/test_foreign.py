"""Public trace formats, in and out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from loadgen.errors import TraceError, UsageError
from loadgen.trace.foreign.catalog import read_foreign, slice_trace
from loadgen.trace.foreign.mooncake import write_mooncake
from loadgen.trace.trace import Trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"


def read_text(tmp_path: Path, text: str, *, format_name: str = "auto", unit: str | None = None) -> Trace:
    path = tmp_path / "source.txt"
    path.write_bytes(text.encode())
    return read_foreign(path, format_name=format_name, unit=unit)


def mooncake(stamps: list[float]) -> str:
    return "".join(
        json.dumps({"timestamp": stamp, "input_length": 600, "output_length": 2, "hash_ids": [1, 2]}) + "\n"
        for stamp in stamps
    )


def test_azure_keeps_seven_digits_crlf_and_a_missing_last_line_end(tmp_path: Path) -> None:
    """F44"""
    stamps = ("0010000", "0020000", "0090000", "0110000")
    rows = "\r\n".join(f"2023-11-16 18:15:46.{digits},5,2" for digits in stamps)
    trace = read_text(tmp_path, AZURE + rows)
    assert trace.arrival_ns.tolist() == [0, 1_000_000, 8_000_000, 10_000_000]
    assert trace.metadata.zone == "UTC"
    assert trace.metadata.origin_unix_ns == 1_700_158_546_001_000_000


def test_azure_multimodal_says_that_images_are_left_out(tmp_path: Path) -> None:
    text = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2025-01-01 00:00:00.0000000,3,5,2\n"
    trace = read_text(tmp_path, text)
    assert trace.table.column("input_tokens").to_pylist() == [5]
    assert any("NumImages" in warning for warning in trace.metadata.warnings)


@pytest.mark.parametrize(
    ("stamps", "unit"),
    [
        ([0, 1000, 2000], None),
        ([0, 1000, 2000], "ms"),
        ([0, 1, 2], "s"),
        ([0.0, 1.0, 2.0], "s"),
        ([1_700_000_000, 1_700_000_001, 1_700_000_002], None),
        ([1_700_000_000_000, 1_700_000_001_000, 1_700_000_002_000], None),
        ([1_700_000_000_000_000, 1_700_000_001_000_000, 1_700_000_002_000_000], None),
        ([1_700_000_000 * 10**9, 1_700_000_001 * 10**9, 1_700_000_002 * 10**9], None),
    ],
)
def test_mooncake_in_every_unit_gives_equal_traces(
    tmp_path: Path, stamps: list[float], unit: str | None
) -> None:
    """F45"""
    trace = read_text(tmp_path, mooncake(stamps), unit=unit)
    assert trace.arrival_ns.tolist() == [0, 10**9, 2 * 10**9]
    assert trace.span_s == 2.0
    if unit is None:
        assert any("--unit overrides" in warning for warning in trace.metadata.warnings)


def test_mooncake_goes_out_and_comes_back_unchanged(tmp_path: Path) -> None:
    trace = read_text(tmp_path, mooncake([0, 5, 5, 1000]))
    write_mooncake(trace, tmp_path / "out.jsonl")
    again = read_foreign(tmp_path / "out.jsonl")
    assert again.trace_id == trace.trace_id


def test_mooncake_out_refuses_rows_without_token_counts(tmp_path: Path) -> None:
    text = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,0,472,API log\n"
    )
    with pytest.raises(TraceError, match="1 of 1 rows lack output_tokens"):
        write_mooncake(read_text(tmp_path, text), tmp_path / "out.jsonl")


def test_burstgpt_keeps_failed_requests_without_an_output_length(tmp_path: Path) -> None:
    text = (
        "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,abc,1.0,ChatGPT,472,18,490,Conversation log\n"
        "7.5,xyz,1.0,GPT-4,100,0,100,API log\n"
        "9,abc,1.0,GPT-4,100,3,100,API log\n"
    )
    trace = read_text(tmp_path, text)
    assert trace.arrival_ns.tolist() == [0, 2_500_000_000, 4_000_000_000]
    assert trace.table.column("output_tokens").to_pylist() == [18, None, 3]
    assert trace.table.column("session").to_pylist() == [0, 1, 0]
    assert trace.table.column("model").to_pylist() == ["ChatGPT", "GPT-4", "GPT-4"]
    assert any("1 requests failed" in warning for warning in trace.metadata.warnings)


def test_lengths_without_arrivals_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="has no arrivals"):
        read_text(tmp_path, "num_prefill_tokens,num_decode_tokens\n3,4\n")


@pytest.mark.parametrize("text", ["", "\n\n", AZURE])
def test_source_without_requests_is_refused(tmp_path: Path, text: str) -> None:
    """F47"""
    with pytest.raises(TraceError, match=r"source\.txt: .*0 requests"):
        read_text(tmp_path, text)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("yesterday,5,2", "line 2: column TIMESTAMP: no date and time"),
        ("2023-11-16 18:15:46,five,2", "line 2: column ContextTokens: 'five' is no whole number"),
        ("2023-11-16 18:15:46,5", "line 2: 2 cells, expected 3"),
        ("2023-11-16 18:15:46,5,-2", "line 2: column GeneratedTokens: '-2'"),
    ],
)
def test_bad_row_is_named_by_its_line(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        read_text(tmp_path, AZURE + row + "\r\n")
    assert message in caught.value.message


@pytest.mark.parametrize(
    "line", ["nonsense", "[1]", '{"timestamp": 1}', '{"timestamp": null, "input_length": 1}']
)
def test_bad_json_line_is_named_by_its_number(tmp_path: Path, line: str) -> None:
    with pytest.raises(TraceError, match="line 2: "):
        read_text(tmp_path, mooncake([0]) + line + "\n")


def test_unknown_file_is_refused_with_the_known_formats(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="none of the known trace formats"):
        read_text(tmp_path, "a,b\n1,2\n")


@pytest.mark.parametrize(("format_name", "unit"), [("csv", None), ("auto", "minutes")])
def test_unknown_format_or_unit_is_refused(tmp_path: Path, format_name: str, unit: str | None) -> None:
    with pytest.raises(UsageError):
        read_text(tmp_path, mooncake([0]), format_name=format_name, unit=unit)


def test_compressed_source_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl.gz"
    path.write_bytes(gzip.compress(mooncake([0, 3]).encode()))
    assert read_foreign(path).num_rows == 2


def test_rows_out_of_order_are_sorted_and_counted(tmp_path: Path) -> None:
    """F46"""
    trace = read_text(tmp_path, mooncake([0, 1390, 10, 1400, 20]))
    assert trace.arrival_ns.tolist() == [0, 10_000_000, 20_000_000, 1_390_000_000, 1_400_000_000]
    assert trace.metadata.counts["out_of_order"] == 2


def test_slice_is_half_open_and_counted_anew(tmp_path: Path) -> None:
    trace = read_text(tmp_path, mooncake([0, 1000, 2000, 3000]))
    piece = slice_trace(trace, 1.0, 2.0)
    assert piece.arrival_ns.tolist() == [0, 10**9]
    with pytest.raises(TraceError, match="0 of 4 requests lie within"):
        slice_trace(trace, 10.0, None)


def test_slice_of_a_dated_trace_moves_its_origin(tmp_path: Path) -> None:
    rows = "\r\n".join(f"2023-11-16 18:15:4{second},5,2" for second in (6, 7, 8))
    trace = read_text(tmp_path, AZURE + rows)
    origin = slice_trace(trace, 1.0, None).metadata.origin_unix_ns
    assert origin == 1_700_158_547 * 10**9
