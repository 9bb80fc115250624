"""Moments as logs and traces write them -> integer nanoseconds, exactly: no float ever holds an epoch.

Errors do not quote the value: a field named by mistake may hold a prompt.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import lru_cache

UNIT_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

_DAY_NS = 86_400 * 10**9
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_MONTHS = {
    name: number
    for number, name in enumerate(
        ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), start=1
    )
}
_PLAIN = re.compile(r"([+-]?)(\d+)(?:\.(\d*))?")
# Go's log package writes 2026/10/25.
_ISO = re.compile(
    r"(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s?(Z|z|UTC|[+-]\d\d(?::?\d\d)?)?"
)
_CLF = re.compile(
    r"\[?(\d\d)/([A-Z][a-z][a-z])/(\d{4}):(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s?(Z|[+-]\d\d:?\d\d)?\]?"
)


def number_ns(text: str, unit_ns: int) -> int:
    """Nanoseconds of a decimal number of units, cut (not rounded) below 1 ns.

    `1792889998.201389540` with unit 10**9 keeps all its digits. Raises ValueError if it is no number.
    """
    plain = _PLAIN.fullmatch(text.strip())
    if plain is None:
        try:
            value = Decimal(text.strip()) * unit_ns
            value_ns = int(value)
        except (InvalidOperation, OverflowError, ValueError) as exc:
            raise ValueError("no number") from exc
        return _within_range(value_ns)
    sign, whole, fraction = plain.groups()
    value_ns = int(whole) * unit_ns
    if fraction:
        value_ns += int(fraction) * unit_ns // 10 ** len(fraction)
    return _within_range(-value_ns if sign == "-" else value_ns)


def epoch_unit(magnitude: int) -> str | None:
    """The unit of an epoch number of this magnitude: s, ms, us or ns; None if it can be no recent epoch.

    1.8e9 s, 1.8e12 ms, 1.8e15 us, 1.8e18 ns are all in 2027; from 1973 on the ranges do not overlap.
    """
    for unit, lowest in (("s", 10**8), ("ms", 10**11), ("us", 10**14), ("ns", 10**17)):
        if lowest <= magnitude < lowest * 1000:
            return unit
    return None


def calendar_ns(text: str) -> tuple[int, int | None]:
    """(ns, offset_ns) of an ISO 8601 / RFC 3339 or CLF stamp with 0 to 9 or more fraction digits.

    ns is counted from 1970-01-01 on the stamp's own calendar; offset_ns is its distance from UTC, or
    None when it has no zone. Subtract the offset to get unix ns. Raises ValueError if it is no stamp.
    """
    found = _ISO.fullmatch(text.strip())
    if found is not None:
        year, month, day, hour, minute, second, fraction, zone = found.groups()
        day_number = _day_number(int(year), int(month), int(day))
    else:
        found = _CLF.fullmatch(text.strip())
        if found is None:
            raise ValueError("no date and time")
        day, name, year, hour, minute, second, fraction, zone = found.groups()
        if name not in _MONTHS:
            raise ValueError("no month of that name")
        day_number = _day_number(int(year), _MONTHS[name], int(day))
    hours, minutes, seconds = int(hour), int(minute), int(second)
    # A leap second is written as :60 and counts as the next one.
    if hours > 23 or minutes > 59 or seconds > 60:
        raise ValueError("no such time of day")
    ns = day_number * _DAY_NS + (hours * 3600 + minutes * 60 + seconds) * 10**9
    if fraction:
        ns += int(fraction[:9].ljust(9, "0"))
    return _within_range(ns), _offset_ns(zone)


def _within_range(ns: int) -> int:
    # Files hold 64-bit integers: from 1824 to 2116, which leaves room to subtract.
    if not -(2**62) < ns < 2**62:
        raise ValueError("a moment beyond 1824 to 2116")
    return ns


@lru_cache(maxsize=1024)
def _day_number(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal() - _EPOCH_DAY


@lru_cache(maxsize=256)
def _offset_ns(zone: str | None) -> int | None:
    if zone is None:
        return None
    if zone in ("Z", "z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return (-minutes if zone[0] == "-" else minutes) * 60 * 10**9
