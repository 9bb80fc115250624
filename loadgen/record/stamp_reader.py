"""Stamps of one log -> unix ns: numbers in a unit told or seen, calendar times with or without a zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.zone import ZoneClock, parse_zone
from loadgen.trace.moments import UNIT_NS, calendar_ns, epoch_unit, number_ns

_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_LONG_FRACTION = re.compile(r"(?<=[.,])(\d{6})(\d{1,3})\d*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StampReader:
    """Reads the stamps of one log, in its order.

    unit: auto, s, ms, us, ns, iso, or a strptime pattern. zone: of stamps that carry none, or None.
    """

    def __init__(self, unit: str, zone: str | None) -> None:
        self._unit = unit
        self._zone = zone
        self._clock = ZoneClock(parse_zone(zone)) if zone is not None else None
        self._naive_place: str | None = None
        self._aware_place: str | None = None
        self.guessed_unit: str | None = None
        # Whole numbers from lowest to below 1000 times it are epochs of the unit seen.
        self._lowest = 0
        self._scale_ns = 0

    def unix_ns(self, value: object, place: str) -> int:
        """Unix ns of one stamp; `place` is where it stands, for errors.

        Raises ValueError if the value is no stamp (the line is malformed), RecordError if the log as a
        whole cannot be read like this: no unit, no zone, or some stamps with a zone and some without.
        """
        if type(value) is int and self._scale_ns and self._lowest <= value < self._lowest * 1000:
            return value * self._scale_ns
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError(f"the time is {_kind(value)}")
        text = str(value).strip()
        if self._unit in UNIT_NS:
            return number_ns(text, UNIT_NS[self._unit])
        if self._unit == "auto" and _NUMBER.fullmatch(text):
            return self._number_of_seen_unit(text, place)
        ns, offset_ns = calendar_ns(text) if self._unit in ("auto", "iso") else self._by_pattern(text)
        if offset_ns is not None:
            self._aware_place = self._aware_place or place
            self._refuse_mixture()
            return ns - offset_ns
        self._naive_place = self._naive_place or place
        self._refuse_mixture()
        if self._clock is None:
            raise RecordError(
                f"{place}: the stamp {text[:40]!r} has no zone",
                hint="say which with --zone: UTC, +02:00, or a name such as Europe/Berlin",
            )
        return self._clock.unix_ns(ns)

    def report(self, findings: Findings) -> None:
        """Tell what was assumed, once all stamps are read."""
        if self.guessed_unit is not None:
            findings.assume(
                f"bare numbers are epoch {self.guessed_unit}, by their magnitude (--time-unit overrides)"
            )
        if self._naive_place is not None:
            findings.assume(f"stamps without a zone are in {self._zone}")
        if self._clock is not None and self._clock.num_ambiguous:
            findings.warn(
                f"{self._clock.num_ambiguous} stamps lie in the hour that {self._zone} has twice; "
                "settled by the order of lines"
            )
        if self._clock is not None and self._clock.num_skipped:
            findings.warn(
                f"{self._clock.num_skipped} stamps lie in an hour that {self._zone} does not have; "
                "is the zone right?"
            )

    @property
    def zone_used(self) -> str | None:
        """The zone that was assumed for some stamp, or None."""
        return self._zone if self._naive_place is not None else None

    def _number_of_seen_unit(self, text: str, place: str) -> int:
        seen = epoch_unit(abs(number_ns(text, 1)))
        if self.guessed_unit is None:
            if seen is None:
                raise RecordError(
                    f"{place}: the time {text[:40]} has no unit, and is too small for an epoch",
                    hint="give --time-unit s, ms, us or ns",
                )
            self.guessed_unit = seen
            self._scale_ns = UNIT_NS[seen]
            self._lowest = 10**17 // self._scale_ns
        elif seen != self.guessed_unit:
            raise ValueError(f"the time {text[:40]} is no epoch in {self.guessed_unit}, as those before")
        return number_ns(text, UNIT_NS[self.guessed_unit])

    def _refuse_mixture(self) -> None:
        if self._naive_place is not None and self._aware_place is not None:
            raise RecordError(
                f"stamps with a zone ({self._aware_place}) and without one ({self._naive_place}) in one log",
                hint="record them apart, or write the zone into each",
            )

    def _by_pattern(self, text: str) -> tuple[int, int | None]:
        # strptime takes six fraction digits at most; the others are kept aside.
        rest_ns = 0
        if "%f" in self._unit and (found := _LONG_FRACTION.search(text)):
            rest_ns = int(found[2].ljust(3, "0"))
            text = text[: found.start()] + found[1] + text[found.end() :]
        try:
            moment = datetime.strptime(text, self._unit)  # noqa: DTZ007  # the caller handles a missing zone
        except ValueError as exc:
            raise ValueError("the time does not match --time-unit") from exc
        offset = moment.utcoffset()
        since = moment.replace(tzinfo=UTC) - _EPOCH
        return _timedelta_ns(since) + rest_ns, None if offset is None else _timedelta_ns(offset)


def _timedelta_ns(delta: timedelta) -> int:
    return (delta.days * 86_400 + delta.seconds) * 10**9 + delta.microseconds * 1000


def _kind(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"
