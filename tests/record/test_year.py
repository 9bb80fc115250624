"""Stamps without a year: syslog's own moment, patterns without one, logs and rotated files over New Year."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import RecordError
from loadgen.record.recorder import record_logs
from loadgen.record.settings import RecordSettings
from loadgen.record.year import YearClock
from loadgen.trace.moments import calendar_ns
from support.logs import recorded, rows

WRITTEN: dict[str, Any] = {"time_field": "@written", "zone": "UTC"}
START_NS = 1_792_889_999 * 10**9


def of_day(day: str, year: int) -> tuple[int, int | None]:
    return calendar_ns(f"{year}-{day} 00:00:00")


def of_syslog(stamp: str) -> str:
    return f'<134>{stamp} host app[8]: {{"in": 3}}\n'


def test_the_moment_of_an_old_syslog_line_is_had_by_its_year_and_zone(tmp_path: Path) -> None:
    text = of_syslog("Oct 25 00:59:59") + of_syslog("Nov  1 00:59:59")
    recording = recorded(tmp_path, text, "jsonl", year=2026, **WRITTEN)
    assert [row["unix_ns"] for row in rows(recording)] == [START_NS, START_NS + 7 * 86_400 * 10**9]
    assert "stamps without a year begin in 2026" in recording.fidelity.assumptions


def test_a_stamp_without_a_year_is_refused_until_one_is_given(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"a\.log:1: the stamp 'Oct 25 00:59:59' has no year") as caught:
        recorded(tmp_path, of_syslog("Oct 25 00:59:59"), "jsonl", **WRITTEN)
    assert caught.value.hint == "give it: --year 2026"


@pytest.mark.parametrize(
    ("pattern", "stamp", "ns"),
    [
        ("%d.%m. %H:%M:%S.%f", "25.10. 00:59:59.5", START_NS + 5 * 10**8),
        ("%m-%d %H:%M:%S %z", "10-25 02:59:59 +0200", START_NS),
        ("%%Y %m-%d %H:%M:%S", "%Y 10-25 00:59:59", START_NS),
    ],
)
def test_a_pattern_without_a_year_takes_the_one_told(
    tmp_path: Path, pattern: str, stamp: str, ns: int
) -> None:
    options: dict[str, Any] = {"time_field": "t", "time_unit": pattern, "zone": "UTC"}
    text = f'{{"t": "{stamp}"}}\n'
    assert rows(recorded(tmp_path, text, "jsonl", year=2026, **options))[0]["unix_ns"] == ns
    with pytest.raises(RecordError, match="has no year"):
        recorded(tmp_path, text, "jsonl", **options)


def test_29_february_is_a_day_of_a_leap_year_alone(tmp_path: Path) -> None:
    assert rows(recorded(tmp_path, of_syslog("Feb 29 12:00:00"), "jsonl", year=2028, **WRITTEN))
    with pytest.raises(RecordError, match="day is out of range"):
        recorded(tmp_path, of_syslog("Feb 29 12:00:00"), "jsonl", year=2026, **WRITTEN)


def test_late_lines_stand_in_the_year_that_is_nearer() -> None:
    clock = YearClock(2026)
    days = ["12-31", "01-01", "12-31", "01-02", "12-30", "12-31", "01-01"]
    found = [clock.calendar_ns(partial(of_day, day))[0] for day in days]
    first = found[0]
    assert [(ns - first) // (86_400 * 10**9) for ns in found] == [0, 1, 0, 2, -1, 0, 1]


def test_rotated_files_over_new_year_are_read_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(of_syslog("Jan  2 00:00:00"), encoding="utf-8")
    (tmp_path / "app.log.1").write_text(of_syslog("Dec 31 00:00:00"), encoding="utf-8")
    settings = RecordSettings(year=2026, **WRITTEN)
    trace = record_logs([tmp_path / "app.log", tmp_path / "app.log.1"], "jsonl", settings).trace
    assert [source.name for source in trace.metadata.sources] == ["app.log.1", "app.log"]
    assert trace.span_s == 2 * 86_400
