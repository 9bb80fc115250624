"""Moments: every spelling of one instant gives one integer."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.trace.moments import UNIT_NS, calendar_ns, epoch_unit, number_ns

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "fraction_ns"),
    [
        ("2023-11-16 18:15:46", 0),
        ("2023-11-16 18:15:46.5", 500_000_000),
        ("2023-11-16 18:15:46.001", 1_000_000),
        ("2023-11-16 18:15:46.001000", 1_000_000),
        ("2023-11-16 18:15:46.0010000", 1_000_000),
        ("2023-11-16T18:15:46.001000000Z", 1_000_000),
        ("2023-11-16T18:15:46.001+00:00", 1_000_000),
        ("2023-11-16T20:15:46.001+02:00", 1_000_000),
        ("2023-11-16 18:15:46,001", 1_000_000),
        ("16/Nov/2023:18:15:46 +0000", 0),
        ("[16/Nov/2023:18:15:46.001]", 1_000_000),
        ("2023-11-16 18:15:46.123456789012", 123_456_789),
    ],
)
def test_every_spelling_of_one_instant_gives_one_value(text: str, fraction_ns: int) -> None:
    """F44"""
    ns, offset_ns = calendar_ns(text)
    assert ns - (offset_ns or 0) == 1_700_158_546 * SECOND + fraction_ns


def test_seven_fraction_digits_keep_arrivals_apart() -> None:
    """F44: not 0, 0, 0, 10 ms."""
    moments = [
        calendar_ns(f"2023-11-16 18:15:46.{digits}")[0]
        for digits in ("0010000", "0020000", "0090000", "0110000")
    ]
    assert [(moment - moments[0]) // 10**6 for moment in moments] == [0, 1, 8, 10]


@pytest.mark.parametrize(
    ("text", "offset_s"),
    [("Z", 0), (" UTC", 0), ("+05:30", 19_800), ("-0700", -25_200), ("+02", 7_200)],
)
def test_offset_is_told_apart(text: str, offset_s: int) -> None:
    assert calendar_ns("2026-10-25T00:59:58" + text)[1] == offset_s * SECOND


def test_stamp_without_a_zone_has_no_offset() -> None:
    assert calendar_ns("2026-10-25 00:59:58")[1] is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-13-01 00:00:00",
        "2026-02-30 00:00:00",
        "2026-01-01 24:00:00",
        "01/Xyz/2026:00:00:00 +0000",
    ],
)
def test_what_is_no_stamp_is_refused_without_quoting_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(no |month|day|.*day is|.*month must)") as caught:
        calendar_ns(text)
    assert "yesterday" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("1792889998.201389540", "s"),
        ("1792889998201.38954", "ms"),
        ("1792889998201389.54", "us"),
        ("1792889998201389540", "ns"),
    ],
)
def test_epoch_number_keeps_every_digit_in_every_unit(text: str, unit: str) -> None:
    """F49: epoch nanoseconds do not fit a float."""
    assert number_ns(text, UNIT_NS[unit]) == 1_792_889_998_201_389_540
    assert epoch_unit(int(text.partition(".")[0])) == unit


@pytest.mark.parametrize("magnitude", [0, 1000, 86_400, 99_999_999])
def test_small_number_has_no_epoch_unit(magnitude: int) -> None:
    """F45"""
    assert epoch_unit(magnitude) is None


@given(st.integers(-(4 * 10**9), 4 * 10**9), st.integers(0, 12))
def test_decimal_numbers_are_exact(digits: int, places: int) -> None:
    text = f"{Decimal(digits).scaleb(-places):f}"
    assert number_ns(text, SECOND) == int(Decimal(text) * SECOND)


@pytest.mark.parametrize("text", ["1e30", "9" * 30, "9" * 5000])
def test_number_beyond_the_range_of_a_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"number|beyond|limit"):
        number_ns(text, SECOND)


def test_date_beyond_the_range_of_a_file_is_refused() -> None:
    with pytest.raises(ValueError, match="beyond"):
        calendar_ns("9999-12-31 00:00:00")


@pytest.mark.parametrize("text", ["", "-", "abc", "1.2.3", "NaN", "Infinity", "0x10"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no number"):
        number_ns(text, SECOND)
