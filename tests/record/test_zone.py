"""Zones: naive times are never taken as the machine's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.errors import RecordError, UsageError
from loadgen.record.recorder import record_logs
from loadgen.record.recording import Recording
from loadgen.record.settings import RecordSettings
from loadgen.record.zone import ZoneClock, parse_zone
from loadgen.trace.moments import calendar_ns

HOUR_NS = 3600 * 10**9


def record_stamps(
    tmp_path: Path, stamps: list[str], zone: str | None = None, unit: str = "auto"
) -> Recording:
    path = tmp_path / "rows.csv"
    path.write_text("t,n\n" + "".join(f'"{stamp}",1\n' for stamp in stamps), encoding="utf-8")
    settings = RecordSettings(
        time_field="t", time_unit=unit, zone=zone, length_fields={"input_tokens": "n"}, stamp="arrival"
    )
    return record_logs([path], "csv", settings)


def offsets_s(recording: Recording) -> list[float]:
    return [arrival_ns / 1e9 for arrival_ns in recording.trace.arrival_ns.tolist()]


@pytest.mark.parametrize("machine_zone", ["America/New_York", "UTC"])
def test_three_spellings_of_one_instant_agree_under_every_machine_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, machine_zone: str
) -> None:
    """F50"""
    import time

    monkeypatch.setenv("TZ", machine_zone)
    time.tzset()
    try:
        naive = record_stamps(tmp_path, ["2023-11-16 18:15:46"], zone="UTC")
        aware = record_stamps(tmp_path, ["2023-11-16 20:15:46+02:00", "2023-11-16T18:15:46Z"])
    finally:
        monkeypatch.undo()
        time.tzset()
    assert naive.trace.metadata.origin_unix_ns == 1_700_158_546 * 10**9
    assert aware.trace.metadata.origin_unix_ns == 1_700_158_546 * 10**9
    assert offsets_s(aware) == [0, 0]


def test_naive_stamps_without_a_zone_are_refused_with_the_place(tmp_path: Path) -> None:
    """F50"""
    with pytest.raises(RecordError, match=r"rows\.csv:2: .* has no zone") as caught:
        record_stamps(tmp_path, ["2023-11-16 18:15:46"])
    assert caught.value.hint is not None
    assert "--zone" in caught.value.hint


def test_naive_and_aware_rows_in_one_file_are_refused_with_both_places(tmp_path: Path) -> None:
    """F50"""
    with pytest.raises(RecordError, match=r"with a zone \(rows\.csv:3\) and without one \(rows\.csv:2\)"):
        record_stamps(tmp_path, ["2023-11-16 18:15:46", "2023-11-16 18:15:47Z"], zone="UTC")


def test_repeated_hour_of_autumn_is_settled_by_the_order_of_lines(tmp_path: Path) -> None:
    """F50: no hidden gap of an hour, no step back."""
    stamps = ["2024-10-27 02:10:00", "2024-10-27 02:50:00", "2024-10-27 02:10:00", "2024-10-27 03:00:00"]
    recording = record_stamps(tmp_path, stamps, zone="Europe/Berlin")
    assert offsets_s(recording) == [0, 2400, 3600, 6600]
    assert any("has twice" in warning for warning in recording.fidelity.warnings)
    assert recording.fidelity.num_out_of_order == 0


def test_equal_stamps_in_the_repeated_hour_stay_together(tmp_path: Path) -> None:
    """F50"""
    recording = record_stamps(tmp_path, ["2024-10-27 02:30:00"] * 2, zone="Europe/Berlin")
    assert offsets_s(recording) == [0, 0]


def test_hour_that_spring_leaves_out_is_told(tmp_path: Path) -> None:
    recording = record_stamps(tmp_path, ["2024-03-31 02:30:00"], zone="Europe/Berlin")
    assert any("does not have" in warning for warning in recording.fidelity.warnings)


@pytest.mark.parametrize(
    ("zone", "offset_hours"), [("UTC", 0), ("z", 0), ("+02:00", 2), ("-0330", -3.5), ("Asia/Kolkata", 5.5)]
)
def test_zone_names_and_offsets_are_understood(zone: str, offset_hours: float) -> None:
    calendar, _ = calendar_ns("2026-07-01 12:00:00")
    assert calendar - ZoneClock(parse_zone(zone)).unix_ns(calendar) == offset_hours * HOUR_NS


@pytest.mark.parametrize("zone", ["local", "localtime", "", "Mars/Base", "../etc/passwd"])
def test_zone_that_is_none_or_differs_from_machine_to_machine_is_refused(zone: str) -> None:
    with pytest.raises(UsageError, match="--zone"):
        parse_zone(zone)


def test_pattern_reads_nine_fraction_digits(tmp_path: Path) -> None:
    """F44"""
    stamps = ["16.11.2023 18:15:46.000000001", "16.11.2023 18:15:46.001"]
    recording = record_stamps(tmp_path, stamps, zone="UTC", unit="%d.%m.%Y %H:%M:%S.%f")
    assert recording.trace.arrival_ns.tolist() == [0, 999_999]
