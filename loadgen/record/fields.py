"""Fields of a row that the user names: counts, durations and names out of cells and JSON values."""

from __future__ import annotations

import re

from loadgen.errors import UsageError
from loadgen.trace.moments import UNIT_NS, number_ns

MAX_COUNT = 2**31 - 1
_MAX_NAME = 200
_UNIT_ENDING = re.compile(r"(?:^|[\W_])(s|sec|secs|seconds|ms|millis|us|micros|ns|nanos)\W*$", re.IGNORECASE)
_WRITTEN_PART = re.compile(r"(\d+(?:\.\d*)?)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_WRITTEN_NS = {**UNIT_NS, "\u00b5s": 10**3, "\u03bcs": 10**3, "m": 60 * 10**9, "h": 3600 * 10**9}
_UNIT_OF = {"sec": "s", "secs": "s", "seconds": "s", "millis": "ms", "micros": "us", "nanos": "ns"}


def count_or_none(value: object) -> int | None:
    """A whole number, 0 or more, also in quotes; None for null and an empty cell. Raises ValueError."""
    if value is None:
        return None
    if isinstance(value, bool):
        raise ValueError("a length is true or false")
    if isinstance(value, int):
        number = value
    elif isinstance(value, float):
        if not value.is_integer():
            raise ValueError(f"a length is {value}")
        number = int(value)
    elif isinstance(value, str):
        text = value.strip()
        if text.lower() in ("", "-", "null", "none", "nan"):
            return None
        digits = text.removesuffix(".0")
        if not digits.removeprefix("-").isdecimal():
            raise ValueError("a length is no whole number")
        number = int(digits)
    else:
        raise ValueError(f"a length is a {type(value).__name__}")
    if not 0 <= number <= MAX_COUNT:
        raise ValueError(f"a length is {number}")
    return number


def duration_ns_or_none(value: object, unit_ns: int) -> int | None:
    """Nanoseconds of a number of units, also in quotes; None where missing. Raises ValueError.

    unit_ns: of bare numbers; 0 refuses these. Durations with units, such as 1m2.5s, are read as they say.
    """
    if value is None or isinstance(value, bool) or not isinstance(value, int | float | str):
        if value is None:
            return None
        raise ValueError("the duration is no number")
    text = str(value).strip()
    if text.lower() in ("", "-", "null", "none", "nan"):
        return None
    carries_unit = not unit_ns or _WRITTEN_PART.match(text) is not None
    duration_ns = written_duration_ns(text) if carries_unit else number_ns(text, unit_ns)
    if duration_ns < 0:
        raise ValueError(f"the duration is negative ({text})")
    return duration_ns


def written_duration_ns(text: str) -> int:
    """Nanoseconds of a duration with units, as Go and Rust write it: 1m2.5s, 12.25ms, 873.1µs.

    Raises ValueError if it is none.
    """
    total_ns, position = 0, 0
    for part in _WRITTEN_PART.finditer(text):
        if part.start() != position:
            break
        total_ns += number_ns(part[1], _WRITTEN_NS[part[2]])
        position = part.end()
    if position == 0 or position != len(text):
        raise ValueError("no duration with units")
    return total_ns


def status_or_none(value: object) -> int | None:
    """An HTTP status, 0 to 999; None for anything else."""
    try:
        number = count_or_none(value)
    except ValueError:
        return None
    return number if number is not None and number <= 999 else None


def name_or_none(value: object) -> str | None:
    """A short name; None for null, an empty one and anything that is no text."""
    return value[:_MAX_NAME] if isinstance(value, str) and value else None


def session_or_none(value: object) -> str | None:
    """A session's id as text, only to be told from others; None where missing."""
    return None if value is None or value == "" else str(value)


def duration_unit_of(field: str, unit: str) -> str:
    """The unit told, or the one that the field's name ends in: took_ms, `Took (ms)`, elapsed_s.

    Raises UsageError if neither tells it.
    """
    if unit != "auto":
        return unit
    found = _UNIT_ENDING.search(field)
    if found is None:
        raise UsageError(
            f"--duration-field {field!r} does not tell its unit",
            hint="give --duration-unit s, ms, us, ns, or text for 1m2.5s",
        )
    name = found[1].lower()
    return _UNIT_OF.get(name, name)


def unit_ns(unit: str) -> int:
    """Nanoseconds in one unit: s, ms, us or ns; 0 for "text", durations that carry their units."""
    return 0 if unit == "text" else UNIT_NS[unit]
