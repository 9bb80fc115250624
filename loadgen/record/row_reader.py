"""One row of a table of any field names -> one request, by the fields that the user names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loadgen.errors import RecordError
from loadgen.record.fields import (
    count_or_none,
    duration_ns_or_none,
    duration_unit_of,
    name_or_none,
    status_or_none,
    unit_ns,
)
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.request_batch import RequestRows
from loadgen.record.settings import RecordSettings
from loadgen.record.stamp_reader import StampReader

Getter = Callable[[Any], Any]


class RowReader:
    """Reads rows by named fields: the moment, the duration, lengths, model, status, session.

    getter: makes, for a field's name, the function that takes its value out of a row; the value is None
    where the row lacks it. Raises RecordError if the settings do not say enough to get arrivals and lengths.
    """

    def __init__(self, settings: RecordSettings, getter: Callable[[str], Getter]) -> None:
        if settings.time_field is None:
            raise RecordError("which field holds the time?", hint="give --time FIELD")
        if not any(column.startswith("input_") for column in settings.length_fields):
            raise RecordError(
                "which field holds the length of the input?",
                hint="give --input-tokens, --input-chars or --input-bytes FIELD",
            )
        self._settings = settings
        self._marks = settings.stamp or "arrival"
        self._stamps = StampReader(settings.time_unit, settings.zone)
        self._time = getter(settings.time_field)
        self._duration: Getter | None = None
        self._duration_unit: str | None = None
        if settings.duration_field is not None:
            self._duration = getter(settings.duration_field)
            self._duration_unit = duration_unit_of(settings.duration_field, settings.duration_unit)
        if self._marks == "completion" and self._duration is None and not settings.accept_completion_times:
            raise RecordError(
                "--stamp completion without a duration: arrivals cannot be had",
                hint="give --duration-field FIELD",
            )
        self._others: list[tuple[Getter, Callable[[object], object]]] = [
            (getter(name), count_or_none) for name in settings.length_fields.values()
        ]
        names = ["duration_ns", *settings.length_fields]
        for column, name, convert in (
            ("model", settings.model_field, name_or_none),
            ("status", settings.status_field, status_or_none),
            ("session", settings.session_field, _session_or_none),
        ):
            if name is not None:
                names.append(column)
                self._others.append((getter(name), convert))
        self.rows = RequestRows(tuple(names))

    def add(self, row: Any, place: str) -> None:
        """Take one row. Raises ValueError if it is malformed, RecordError as StampReader does."""
        moment_ns = self._stamps.unix_ns(self._time(row), place)
        duration_ns = None
        if self._duration is not None:
            duration_ns = duration_ns_or_none(self._duration(row), unit_ns(self._duration_unit or "s"))
        if self._marks == "completion" and not self._settings.accept_completion_times:
            if duration_ns is None:
                raise ValueError("the duration is missing, so the arrival cannot be had")
            moment_ns -= duration_ns
        values = [convert(get(row)) for get, convert in self._others]
        self.rows.add(moment_ns, (duration_ns, *values))

    def report(self, findings: Findings) -> None:
        """Tell what was assumed, once all rows are read."""
        if self._settings.stamp is None:
            findings.assume(
                f"{self._settings.time_field} marks the arrival (give --stamp completion if it is the end)"
            )
        if self._duration_unit is not None and self._settings.duration_unit == "auto":
            findings.assume(f"{self._settings.duration_field} is in {self._duration_unit}, by its name")
        if self._marks == "completion" and self._settings.accept_completion_times:
            findings.warn("arrivals are completion times, as accepted: bursts are smeared")
        self._stamps.report(findings)

    def stamp_facts(self) -> StampFacts:
        """What the stamps meant."""
        subtracts = self._marks == "completion" and not self._settings.accept_completion_times
        arrival = f"{self._settings.time_field}" + (
            f" - {self._settings.duration_field}" if subtracts else ""
        )
        return StampFacts(marks=self._marks, arrival_from=arrival, zone=self._stamps.zone_used)


def _session_or_none(value: object) -> str | None:
    """A session's id as text, only to be told from others; None where missing."""
    return None if value is None or value == "" else str(value)
