"""Columns of any names -> requests, by the fields that the user names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from loadgen.errors import RecordError
from loadgen.record.fields import duration_unit_of, unit_ns
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import WRITTEN_FIELD, LineBatch
from loadgen.record.prefix_blocks import PREFIX_TYPE, PrefixBlocks
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings
from loadgen.record.stamp_reader import StampReader
from loadgen.record.value_columns import Faults, Values, counts, durations_ns, names, sessions, statuses

NO_ARRIVAL = "the duration is missing, so the arrival cannot be had"


class NamedFields:
    """Reads rows by named fields: the moment, the duration, lengths, model, status, session.

    Without any field of a length the requests are arrivals alone. Raises RecordError if the settings do not say
    enough to get arrivals, or name lengths of the output without those of the input.
    """

    def __init__(self, settings: RecordSettings) -> None:
        if settings.time_field is None:
            raise RecordError("which field holds the time?", hint="give --time FIELD")
        if settings.length_fields and not any(name.startswith("input_") for name in settings.length_fields):
            raise RecordError(
                "which field holds the length of the input?",
                hint="give --input-tokens, --input-chars or --input-bytes FIELD, or no lengths for arrivals alone",
            )
        self.time: str = settings.time_field
        self._settings = settings
        self._marks = settings.stamp or "arrival"
        self._stamps = StampReader(settings.time_unit, settings.zone, settings.year)
        self._duration_unit = (
            duration_unit_of(settings.duration_field, settings.duration_unit)
            if settings.duration_field is not None
            else None
        )
        if self._subtracts and settings.duration_field is None:
            raise RecordError(
                "--stamp completion without a duration: arrivals cannot be had",
                hint="give --duration-field FIELD",
            )
        named = (
            self.time,
            settings.duration_field,
            *settings.length_fields.values(),
            settings.model_field,
            settings.status_field,
            settings.session_field,
            settings.prompt_field if settings.prefix_salt is not None else None,
        )
        self.fields: tuple[str, ...] = tuple(dict.fromkeys(name for name in named if name is not None))

    def check(self, batch: LineBatch) -> None:
        """Raise RecordError if the moment is to be a wrapper's, and none gives one."""
        if self.time == WRITTEN_FIELD and batch.written is None and batch.data:
            raise RecordError(
                f"{batch.source}: no wrapper gives a moment, so there is no {WRITTEN_FIELD}",
                hint="name a field of the lines with --time, or what wraps them with --wrapper",
            )

    @property
    def whole(self) -> tuple[str, ...]:
        """Those of the fields whose values may be lists and objects."""
        return tuple(name for name in (self._settings.prompt_field,) if name in self.fields)

    @property
    def order_matters(self) -> bool:
        """Whether rows have to be read in the order of the log."""
        return self._stamps.order_matters

    def read(self, rows: Mapping[str, Values], place_of: Callable[[int], str]) -> tuple[RequestBatch, Faults]:
        """The requests in `rows`, a column for each of `fields`, and why some rows are none.

        place_of: where the row at an index stands. Raises RecordError as StampReader does.
        """
        settings = self._settings
        arrival_ns, faults = self._stamps.column(rows[self.time], place_of)
        columns: dict[str, Any] = {}
        if settings.duration_field is not None:
            duration_ns, of_duration = durations_ns(
                rows[settings.duration_field], unit_ns(self._duration_unit or "s")
            )
            columns["duration_ns"] = duration_ns
            faults = of_duration | faults
            if self._subtracts:
                missing = np.flatnonzero(np.asarray(duration_ns.is_null())).tolist()
                faults = dict.fromkeys(missing, NO_ARRIVAL) | faults
                arrival_ns = arrival_ns - np.asarray(duration_ns.fill_null(0))
        for column, name in settings.length_fields.items():
            columns[column], of_length = counts(rows[name])
            faults = of_length | faults
        if settings.model_field is not None:
            columns["model"] = names(rows[settings.model_field])
        if settings.status_field is not None:
            columns["status"] = statuses(rows[settings.status_field])
        if settings.session_field is not None:
            columns["session"] = sessions(rows[settings.session_field])
        if settings.prompt_field is not None and settings.prefix_salt is not None:
            blocks = PrefixBlocks(settings.prefix_salt)
            prompts = rows[settings.prompt_field]
            columns["prefix_blocks"] = pa.array([blocks.of(prompt) for prompt in prompts], PREFIX_TYPE)
        return RequestBatch(arrival_ns, columns).without(faults), faults

    @property
    def _subtracts(self) -> bool:
        return self._marks == "completion" and not self._settings.accept_completion_times

    def report(self, findings: Findings) -> None:
        """Tell what was assumed, once all rows are read."""
        if self._settings.stamp is None:
            findings.assume(f"{self.time} marks the arrival (give --stamp completion if it is the end)")
        if self._duration_unit is not None and self._settings.duration_unit == "auto":
            findings.assume(f"{self._settings.duration_field} is in {self._duration_unit}, by its name")
        if self._marks == "completion" and self._settings.accept_completion_times:
            findings.warn("arrivals are completion times, as accepted: bursts are smeared")
        self._stamps.report(findings)

    def stamp_facts(self) -> StampFacts:
        """What the stamps meant."""
        arrival = self.time + (f" - {self._settings.duration_field}" if self._subtracts else "")
        return StampFacts(marks=self._marks, arrival_from=arrival, zone=self._stamps.zone_used)
