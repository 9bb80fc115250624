"""Local times without a zone -> unix ns, in a named zone; never in the machine's own."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from loadgen.errors import UsageError
from loadgen.trace.moments import calendar_ns

_OFFSET = re.compile(r"[+-]\d\d:?\d\d")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# A log in order of arrival may go back by as long as a request takes to be logged; by more than this
# it is the second pass through the hour that the clocks repeat.
_BACKWARD_NS = 10 * 60 * 10**9


def parse_zone(text: str) -> tzinfo:
    """UTC, an offset such as +02:00, or an IANA name such as Europe/Berlin. Raises UsageError otherwise."""
    name = text.strip()
    if name.upper() in ("UTC", "Z"):
        return UTC
    if _OFFSET.fullmatch(name):
        digits = name[1:].replace(":", "")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
        return timezone(-offset if name[0] == "-" else offset)
    hint = "give UTC, an offset such as +02:00, or a name such as Europe/Berlin"
    # "localtime" would make the trace depend on the machine that records it.
    if name.lower() in ("local", "localtime", ""):
        raise UsageError(f"--zone is {text!r}, which differs from machine to machine", hint=hint)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise UsageError(f"--zone is {text!r}, which is no zone", hint=hint) from exc


class ZoneClock:
    """Reads local times of one log in order; the hour that autumn repeats is settled by that order.

    num_ambiguous: stamps in a repeated hour. num_skipped: stamps in an hour that spring leaves out.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._latest_ns: int | None = None
        self._offsets: dict[int, tuple[int, int]] = {}
        self.num_ambiguous = 0
        self.num_skipped = 0

    @property
    def is_fixed(self) -> bool:
        """Whether the zone has one offset for ever."""
        return isinstance(self._zone, timezone)

    def unix_ns(self, calendar: int) -> int:
        """Unix ns of `calendar`, ns since 1970-01-01 on the zone's calendar."""
        first_offset, second_offset = self._both_offsets(calendar // (60 * 10**9))
        moment = calendar - first_offset
        if first_offset != second_offset:
            if first_offset > second_offset:
                self.num_ambiguous += 1
                if self._latest_ns is not None and moment < self._latest_ns - _BACKWARD_NS:
                    moment = calendar - second_offset
            else:
                self.num_skipped += 1
        if self._latest_ns is None or moment > self._latest_ns:
            self._latest_ns = moment
        return moment

    def _both_offsets(self, minute: int) -> tuple[int, int]:
        """Distance from UTC in ns before and after a change of clocks; equal where there is none."""
        known = self._offsets.get(minute)
        if known is None:
            local = (_EPOCH + timedelta(minutes=minute)).replace(tzinfo=self._zone)
            known = (_offset_ns(local.replace(fold=0)), _offset_ns(local.replace(fold=1)))
            self._offsets[minute] = known
        return known


def parse_moment_ns(text: str, zone: str | None, *, option: str) -> int:
    """Unix ns of an option's ISO stamp; without a zone of its own it is in `zone`.

    Raises UsageError that names `option`.
    """
    try:
        ns, offset_ns = calendar_ns(text)
    except ValueError as exc:
        raise UsageError(f"{option}: {exc}", hint="give 2026-10-25T09:00:00Z") from exc
    if offset_ns is not None:
        return ns - offset_ns
    if zone is None:
        raise UsageError(f"{option} is {text!r}, without a zone", hint="add Z or +02:00, or give --zone")
    return ZoneClock(parse_zone(zone)).unix_ns(ns)


def _offset_ns(moment: datetime) -> int:
    offset = moment.utcoffset()
    assert offset is not None
    return (offset.days * 86_400 + offset.seconds) * 10**9
