"""Durations and positions as people write them: `150ms`, `5m`, `1h30m`, `50%`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from loadgen.errors import UsageError

_UNIT_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d)")


def parse_duration_s(text: str, *, option: str) -> float:
    """Seconds of a duration with units, such as `150ms`, `5m` or `1h30m`.

    A bare number is refused, since nobody can tell seconds from milliseconds; `0` is fine.
    Raises UsageError that names `option`.
    """
    compact = text.strip().lower()
    if compact == "0":
        return 0.0
    total_s, position = 0.0, 0
    for part in _PART.finditer(compact):
        if part.start() != position:
            break
        total_s += float(part[1]) * _UNIT_S[part[2]]
        position = part.end()
    if position == 0 or position != len(compact):
        raise UsageError(
            f"{option} is {text!r}, which is no duration",
            hint="give a number with a unit: 150ms, 30s, 5m, 1h30m",
        )
    return total_s


@dataclass(frozen=True, slots=True)
class Position:
    """A point on a time line: either a share of its whole length or seconds from its start.

    share: 0 to 1, or None when `offset_s` is given.
    """

    share: float | None
    offset_s: float | None

    def at_s(self, length_s: float) -> float:
        """Seconds from the start of a time line that is `length_s` long."""
        if self.share is not None:
            return self.share * length_s
        assert self.offset_s is not None
        return self.offset_s


def parse_position(text: str, *, option: str) -> Position:
    """A position: `50%` of the way, or a duration from the start such as `90s`."""
    compact = text.strip()
    if compact.endswith("%"):
        try:
            percent = float(compact[:-1])
        except ValueError:
            percent = -1.0
        if not 0 <= percent <= 100:
            raise UsageError(f"{option} is {text!r}, which is no position", hint="give 0% to 100%, or 90s")
        return Position(share=percent / 100, offset_s=None)
    return Position(share=None, offset_s=parse_duration_s(compact, option=option))


def format_duration(duration_s: float) -> str:
    """A duration for people: `12.3 ms`, `4.56 s`, `5 min 3 s`, `1 h 2 min`."""
    if duration_s < 0:
        return "-" + format_duration(-duration_s)
    if duration_s < 120:
        return _under_two_minutes(duration_s)
    minutes, seconds = divmod(round(duration_s), 60)
    if minutes < 120:
        return f"{minutes} min {seconds} s" if seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def _under_two_minutes(duration_s: float) -> str:
    if duration_s == 0:
        return "0 s"
    if duration_s < 0.9995e-6:
        return f"{duration_s * 1e9:.0f} ns"
    if duration_s < 0.9995e-3:
        return f"{duration_s * 1e6:.0f} us"
    if duration_s < 1:
        return f"{duration_s * 1e3:.3g} ms" if duration_s < 0.1 else f"{duration_s * 1e3:.0f} ms"
    return f"{duration_s:.2f} s"
