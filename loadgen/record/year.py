"""Stamps without a year -> moments: the year that was told, and the one after once the log passes its end."""

from __future__ import annotations

from collections.abc import Callable

HALF_YEAR_NS = 183 * 86_400 * 10**9


class YearClock:
    """Reads yearless stamps of one log in order; `year` is that of the first.

    A stamp stands in the year in which it is nearer to those before: lines are late, so that the last of
    December may stand behind the first of January.
    """

    def __init__(self, year: int) -> None:
        self._first = year
        self._year = year
        self._latest_ns: int | None = None

    def calendar_ns(self, of_year: Callable[[int], tuple[int, int | None]]) -> tuple[int, int | None]:
        """What `of_year` reads in the right year: ns on the stamp's own calendar, and its distance from UTC."""
        found = of_year(self._year)
        if self._latest_ns is None:
            self._latest_ns = found[0]
        elif found[0] < self._latest_ns - HALF_YEAR_NS:
            self._year += 1
            found = of_year(self._year)
        elif found[0] > self._latest_ns + HALF_YEAR_NS and self._year > self._first:
            found = of_year(self._year - 1)
        self._latest_ns = max(self._latest_ns, found[0])
        return found
