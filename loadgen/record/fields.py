"""Fields of a row that the user names: counts, durations and names out of cells and JSON values."""

from __future__ import annotations

import re

from loadgen.errors import UsageError
from loadgen.trace.moments import UNIT_NS, number_ns

_MAX_COUNT = 2**31 - 1
_MAX_NAME = 200
_UNIT_ENDING = re.compile(r"(?:^|[\W_])(s|sec|secs|seconds|ms|millis|us|micros|ns|nanos)\W*$", re.IGNORECASE)
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
    if not 0 <= number <= _MAX_COUNT:
        raise ValueError(f"a length is {number}")
    return number


def duration_ns_or_none(value: object, unit_ns: int) -> int | None:
    """Nanoseconds of a number of units, also in quotes; None where missing. Raises ValueError."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float | str):
        if value is None:
            return None
        raise ValueError("the duration is no number")
    text = str(value).strip()
    if text.lower() in ("", "-", "null", "none", "nan"):
        return None
    duration_ns = number_ns(text, unit_ns)
    if duration_ns < 0:
        raise ValueError(f"the duration is negative ({text})")
    return duration_ns


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


def duration_unit_of(field: str, unit: str) -> str:
    """The unit told, or the one that the field's name ends in: took_ms, `Took (ms)`, elapsed_s.

    Raises UsageError if neither tells it.
    """
    if unit != "auto":
        return unit
    found = _UNIT_ENDING.search(field)
    if found is None:
        raise UsageError(
            f"--duration-field {field!r} does not tell its unit", hint="give --duration-unit s, ms, us or ns"
        )
    name = found[1].lower()
    return _UNIT_OF.get(name, name)


def unit_ns(unit: str) -> int:
    """Nanoseconds in one unit: s, ms, us or ns."""
    return UNIT_NS[unit]
