"""Durations carry their unit, positions say of what."""

from __future__ import annotations

import pytest

from loadgen.durations import format_duration, parse_duration_s, parse_position
from loadgen.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("150ms", 0.15),
        ("5m", 300),
        ("1h30m", 5400),
        ("2.5s", 2.5),
        ("7us", 7e-6),
        ("0", 0),
        (" 3S ", 3),
        ("1d", 86400),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration_s(text, option="--x") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["5", "", "s", "-5s", "5 apples", "1s2", "nan", "1e3s", "s5"])
def test_what_is_no_duration_is_refused_by_its_flag(text: str) -> None:
    with pytest.raises(UsageError, match="--drain"):
        parse_duration_s(text, option="--drain")


def test_positions_are_shares_or_moments() -> None:
    assert parse_position("25%", option="--x").at_s(80) == 20
    assert parse_position("90s", option="--x").at_s(80) == 90


@pytest.mark.parametrize("text", ["101%", "-1%", "x%", "12"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--peak-at"):
        parse_position(text, option="--peak-at")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1e-9, "1 ns"),
        (42e-6, "42 us"),
        (0.0123, "12.3 ms"),
        (0.4, "400 ms"),
        (4.56, "4.56 s"),
        (303, "5 min 3 s"),
        (300, "5 min"),
        (7200, "2 h"),
        (-0.5, "-500 ms"),
    ],
)
def test_durations_are_shown_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
