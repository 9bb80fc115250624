"""Stamps of one log -> unix ns: numbers in a unit told or seen, calendar times with or without a zone."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.value_columns import (
    Faults,
    Values,
    decimal_ns,
    local_ns,
    of_one_kind,
    unit_of_integers,
    whole_micros,
    zoned_ns,
)
from loadgen.record.year import YearClock
from loadgen.record.zone import ZoneClock, parse_zone
from loadgen.trace.moments import UNIT_NS, calendar_ns, epoch_unit, number_ns

_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?")
_LONG_FRACTION = re.compile(r"(?<=[.,])(\d{6})(\d{1,3})\d*")
# syslog's, of RFC 3164.
_YEARLESS = re.compile(r"([A-Z][a-z][a-z]) +(\d{1,2}) (\d\d:\d\d:\d\d(?:[.,]\d+)?)")
# %c and %x hold a year, too.
_YEAR_DIRECTIVE = re.compile(r"(?<!%)(?:%%)*%[YyGcx]")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class StampReader:
    """Reads the stamps of one log, in its order.

    unit: auto, s, ms, us, ns, iso, or a strptime pattern. zone: of stamps that carry none, or None. year: of the
    first stamp, where stamps carry none, or None.
    """

    def __init__(self, unit: str, zone: str | None, year: int | None = None) -> None:
        self._unit = unit
        self._zone = zone
        self._years = None if year is None else YearClock(year)
        self._year = year
        self._is_yearless = False
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
        ns, offset_ns = self._calendar(text, place)
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

    def column(self, values: Values, place_of: Callable[[int], str]) -> tuple[npt.NDArray[np.int64], Faults]:
        """Unix ns of a column of stamps, int64, with 0 for those that are none, and why they are none.

        place_of: where the stamp at an index stands. Raises RecordError as `unix_ns` does.
        """
        moments_ns = self._whole_column(values, place_of)
        if moments_ns is not None:
            return moments_ns, {}
        moments_ns = np.zeros(len(values), dtype=np.int64)
        faults: Faults = {}
        for row, value in enumerate(values):
            try:
                moments_ns[row] = self.unix_ns(value, place_of(row))
            except ValueError as exc:
                faults[row] = str(exc)
        return moments_ns, faults

    @property
    def order_matters(self) -> bool:
        """Whether what a stamp means may depend on those before it: no year, or a zone with two clocks."""
        return self._years is not None or (self._clock is not None and not self._clock.is_fixed)

    def _whole_column(self, values: Values, place_of: Callable[[int], str]) -> npt.NDArray[np.int64] | None:
        """The column at once, where all its stamps are of one kind; else None."""
        array = of_one_kind(values)
        if array is None or array.null_count or not len(array):
            return None
        if pa.types.is_int64(array.type):
            return self._whole_numbers(array)
        if pa.types.is_floating(array.type):
            return self._whole_floats(array)
        return self._whole_texts(array, place_of) if pa.types.is_string(array.type) else None

    def _whole_texts(self, texts: pa.Array, place_of: Callable[[int], str]) -> npt.NDArray[np.int64] | None:
        if self._unit in UNIT_NS:
            return decimal_ns(texts, UNIT_NS[self._unit])
        if self._unit == "auto" and _NUMBER.fullmatch(texts[0].as_py()):
            return self._decimal_numbers(texts)
        return self._whole_calendar(texts, place_of) if self._unit in ("auto", "iso") else None

    def _whole_calendar(
        self, texts: pa.Array, place_of: Callable[[int], str]
    ) -> npt.NDArray[np.int64] | None:
        moments_ns = zoned_ns(texts)
        if moments_ns is not None:
            self._aware_place = self._aware_place or place_of(0)
        elif self._clock is not None and self._clock.is_fixed:
            moments_ns = local_ns(texts)
            if moments_ns is not None:
                self._naive_place = self._naive_place or place_of(0)
                moments_ns = moments_ns - (int(moments_ns[0]) - self._clock.unix_ns(int(moments_ns[0])))
        self._refuse_mixture()
        return moments_ns

    def _whole_floats(self, seconds: pa.Array) -> npt.NDArray[np.int64] | None:
        """Epochs in seconds with at most 6 decimals, as their number shows."""
        if self._unit not in ("auto", "s") or self.guessed_unit not in (None, "s"):
            return None
        bounds = pc.min_max(seconds).as_py()
        if unit_of_integers(int(bounds["min"]), int(bounds["max"])) != "s":
            return None
        micros = whole_micros(seconds)
        if micros is None:
            return None
        if self._unit == "auto":
            self._see("s")
        return micros * 1000

    def _whole_numbers(self, numbers: pa.Array) -> npt.NDArray[np.int64] | None:
        lowest, highest = pc.min_max(numbers).as_py().values()
        unit = unit_of_integers(lowest, highest) if self._unit == "auto" else self._unit
        if unit is None or unit not in UNIT_NS:
            return None
        if self._unit == "auto":
            if self.guessed_unit not in (None, unit):
                return None
            self._see(unit)
        if max(-lowest, highest) >= 2**62 // UNIT_NS[unit]:
            return None
        return np.asarray(numbers.to_numpy(), dtype=np.int64) * UNIT_NS[unit]

    def _decimal_numbers(self, texts: pa.Array) -> npt.NDArray[np.int64] | None:
        """Epochs in digits, of the unit that their magnitude shows, all the same."""
        try:
            whole = texts.cast(pa.float64()).to_numpy()
        except pa.ArrowInvalid:
            return None
        unit = unit_of_integers(int(whole.min()), int(whole.max()))
        if unit is None or self.guessed_unit not in (None, unit):
            return None
        moments_ns = decimal_ns(texts, UNIT_NS[unit])
        if moments_ns is not None:
            self._see(unit)
        return moments_ns

    def _see(self, unit: str) -> None:
        """Take `unit` for that of all bare numbers."""
        self.guessed_unit = unit
        self._scale_ns = UNIT_NS[unit]
        self._lowest = 10**17 // self._scale_ns

    def report(self, findings: Findings) -> None:
        """Tell what was assumed, once all stamps are read."""
        if self.guessed_unit is not None:
            findings.assume(
                f"bare numbers are epoch {self.guessed_unit}, by their magnitude (--time-unit overrides)"
            )
        if self._naive_place is not None:
            findings.assume(f"stamps without a zone are in {self._zone}")
        if self._is_yearless:
            findings.assume(f"stamps without a year begin in {self._year}")
        if self._clock is not None and self._clock.num_ambiguous:
            findings.warn(
                f"{_stamps_lie(self._clock.num_ambiguous)} in the hour that {self._zone} has twice; "
                "settled by the order of lines"
            )
        if self._clock is not None and self._clock.num_skipped:
            findings.warn(
                f"{_stamps_lie(self._clock.num_skipped)} in an hour that {self._zone} does not have; "
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
            self._see(seen)
        elif seen != self.guessed_unit:
            raise ValueError(f"the time {text[:40]} is no epoch in {self.guessed_unit}, as those before")
        return number_ns(text, self._scale_ns)

    def _refuse_mixture(self) -> None:
        if self._naive_place is not None and self._aware_place is not None:
            raise RecordError(
                f"stamps with a zone ({self._aware_place}) and without one ({self._naive_place}) in one log",
                hint="record them apart, or write the zone into each",
            )

    def _calendar(self, text: str, place: str) -> tuple[int, int | None]:
        """ns on the stamp's own calendar, and its distance from UTC; None without a zone."""
        by_pattern = self._unit not in ("auto", "iso")
        found = None if by_pattern else _YEARLESS.fullmatch(text)
        if found is None and (not by_pattern or _YEAR_DIRECTIVE.search(self._unit)):
            return _by_pattern(text, self._unit) if by_pattern else calendar_ns(text)

        def of_year(year: int) -> tuple[int, int | None]:
            if found is None:
                return _by_pattern(f"{year} {text}", f"%Y {self._unit}")
            return calendar_ns(f"{found[2]:0>2}/{found[1]}/{year}:{found[3]}")

        if self._years is None:
            # A leap year, in which each day is found.
            of_year(2000)
            raise RecordError(f"{place}: the stamp {text[:40]!r} has no year", hint="give it: --year 2026")
        self._is_yearless = True
        return self._years.calendar_ns(of_year)


def _by_pattern(text: str, pattern: str) -> tuple[int, int | None]:
    # strptime takes six fraction digits at most; the others are kept aside.
    rest_ns = 0
    if "%f" in pattern and (found := _LONG_FRACTION.search(text)):
        rest_ns = int(found[2].ljust(3, "0"))
        text = text[: found.start()] + found[1] + text[found.end() :]
    try:
        moment = datetime.strptime(text, pattern)  # noqa: DTZ007  # the caller handles a missing zone
    except ValueError as exc:
        raise ValueError("the time does not match --time-unit") from exc
    offset = moment.utcoffset()
    since = moment.replace(tzinfo=UTC) - _EPOCH
    return _timedelta_ns(since) + rest_ns, None if offset is None else _timedelta_ns(offset)


def _timedelta_ns(delta: timedelta) -> int:
    return (delta.days * 86_400 + delta.seconds) * 10**9 + delta.microseconds * 1000


def _kind(value: object) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"


def _stamps_lie(count: int) -> str:
    return "1 stamp lies" if count == 1 else f"{count} stamps lie"
