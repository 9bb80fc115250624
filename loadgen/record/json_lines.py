"""JSON lines of fixed fields -> requests: each format of this kind is a table of its fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.record.fields import unit_ns
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.json_columns import JsonColumnReader
from loadgen.record.line_batch import LineBatch
from loadgen.record.named_fields import NO_ARRIVAL
from loadgen.record.prefix_blocks import PREFIX_TYPE, PrefixBlocks
from loadgen.record.request_batch import RequestBatch
from loadgen.record.request_filter import RequestFilter
from loadgen.record.settings import RecordSettings
from loadgen.record.stamp_reader import StampReader
from loadgen.record.value_columns import (
    Faults,
    Values,
    counts,
    durations_ns,
    flags,
    names,
    sessions,
    statuses,
)


@dataclass(frozen=True, slots=True)
class JsonLayout:
    """Where a JSON log has what. Paths are dotted; lists of them are tried in turn.

    keys: an object that lacks one of them is no request of this log, and counts as other. only: values that
    mark a request. marks: what the time stamps; from a completion the duration is subtracted. zone: of stamps
    without one, by the format's documentation. failed: values that mark a failure, whose token counts
    of 0 mean "not known". whole_seconds: those of `time` that are cut to seconds where they have no fraction:
    bursts are lost.
    """

    keys: tuple[str, ...]
    time: tuple[str, ...]
    marks: str
    lengths: Mapping[str, tuple[str, ...]]
    time_unit: str = "auto"
    zone: str | None = None
    duration: str | None = None
    duration_unit: str = "s"
    end: str | None = None
    first_token: str | None = None
    status: str | None = None
    model: str | None = None
    stream: str | None = None
    session: str | None = None
    prompt: str | None = None
    request: str | None = None
    method: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    only: Mapping[str, object] = field(default_factory=dict)
    failed: Mapping[str, object] = field(default_factory=dict)
    whole_seconds: tuple[str, ...] = ()


class JsonLinesFormat:
    """A format of JSON lines: whoever derives from it says where a line has what."""

    layout: ClassVar[JsonLayout]

    def __init__(self, settings: RecordSettings) -> None:
        layout = self.layout
        self._filter = RequestFilter(settings.path_prefixes)
        self._blocks = None if settings.prefix_salt is None else PrefixBlocks(settings.prefix_salt)
        zone = settings.zone or layout.zone
        time_unit = layout.time_unit if settings.time_unit == "auto" else settings.time_unit
        self._stamps = StampReader(time_unit, zone)
        self._coarse_time: str | None = None
        self._ends = StampReader(time_unit, zone)
        moments = (*layout.time, layout.end, layout.first_token)
        paths = (
            *moments,
            layout.duration,
            layout.status,
            layout.model,
            layout.stream,
            layout.session,
            layout.prompt if settings.prefix_salt is not None else None,
            layout.request,
            *layout.method,
            *layout.target,
            *(path for of_length in layout.lengths.values() for path in of_length),
            *layout.only,
            *layout.failed,
        )
        self._columns = JsonColumnReader(
            [path for path in paths if path is not None],
            exact=[path for path in moments if path is not None],
            whole=[path for path in (layout.prompt,) if path is not None],
            required=layout.keys,
        )

    @classmethod
    def looks_like(cls, head: Sequence[bytes]) -> bool:
        """Whether one of these first lines has the layout's keys."""
        return has_keys(head, cls.layout.keys)

    @property
    def needs(self) -> str | None:
        """What marks a request, where lines hold no paths."""
        if self._has_path:
            return None
        marks = "".join(f", and {path} {value}" for path, value in self.layout.only.items())
        return f"a request has the fields {', '.join(self.layout.keys)}{marks}"

    @property
    def order_matters(self) -> bool:
        """Whether lines have to be read in their order."""
        return self._stamps.order_matters

    def stamp_facts(self) -> StampFacts:
        """What the stamps meant."""
        layout = self.layout
        subtracted = f" - {layout.duration}" if layout.marks == "completion" else ""
        return StampFacts(
            layout.marks,
            (self._coarse_time or layout.time[0]) + subtracted,
            resolution_ns=None if self._coarse_time is None else 10**9,
            zone=self._stamps.zone_used,
        )

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        """The requests in `batches`."""
        if self._has_path:
            findings.assume(self._filter.description)
        for batch in batches:
            columns = self._columns.read(batch)
            rows = _Rows(columns.numbers, columns.values)
            endpoints = self._endpoints(rows) if self._has_path else None
            rows, endpoints = self._kept(rows, endpoints)
            self._note_coarse_time(rows, findings)
            requests, faults = self._requests(rows, endpoints, batch.places(rows.numbers))
            findings.num_other += batch.num_lines - len(rows.numbers) - len(columns.faults)
            findings.add_faults(batch, rows.numbers, faults, columns.faults)
            yield requests.without(faults)
        self._stamps.report(findings)

    @property
    def _has_path(self) -> bool:
        return self.layout.request is not None or bool(self.layout.target)

    def _kept(self, rows: _Rows, endpoints: list[str | None] | None) -> tuple[_Rows, list[str | None] | None]:
        """The rows that are requests to be kept."""
        keep = np.ones(len(rows.numbers), dtype=bool)
        if endpoints is not None:
            keep &= np.array([endpoint is not None for endpoint in endpoints], dtype=bool)
        for path, wanted in self.layout.only.items():
            keep &= np.array([value == wanted for value in rows.values[path]], dtype=bool)
        if keep.all():
            return rows, endpoints
        kept = np.flatnonzero(keep).tolist()
        return rows.taken(kept), None if endpoints is None else [endpoints[row] for row in kept]

    def _note_coarse_time(self, rows: _Rows, findings: Findings) -> None:
        """Warn if a row tells its time in whole seconds alone."""
        for path in self.layout.whole_seconds:
            finer = self.layout.time[: self.layout.time.index(path)]
            if any(value is None for value in rows.first(finer)) and any(
                isinstance(value, str) and "." not in value for value in rows.values[path]
            ):
                self._coarse_time = path
                findings.warn(
                    f"{path} has a resolution of 1 s, and lines have no {finer[0]}: bursts are lost"
                )
                return

    def _requests(
        self, rows: _Rows, endpoints: list[str | None] | None, place_of: Callable[[int], str]
    ) -> tuple[RequestBatch, Faults]:
        layout = self.layout
        moments_ns, faults = self._stamps.column(rows.first(layout.time), place_of)
        columns: dict[str, Any] = {} if endpoints is None else {"endpoint": names(endpoints)}
        duration_ns = pa.nulls(len(rows.numbers), pa.int64())
        if layout.duration is not None:
            duration_ns, of_duration = durations_ns(
                rows.values[layout.duration], unit_ns(layout.duration_unit)
            )
            faults = of_duration | faults
        if layout.end is not None:
            to_end_ns, of_end = self._since(moments_ns, rows.values[layout.end], place_of)
            duration_ns = pc.coalesce(to_end_ns, duration_ns)
            faults = of_end | faults
        if layout.marks == "completion":
            missing = np.flatnonzero(np.asarray(duration_ns.is_null())).tolist()
            faults = dict.fromkeys(missing, NO_ARRIVAL) | faults
            moments_ns = moments_ns - np.asarray(duration_ns.fill_null(0))
        columns["duration_ns"] = duration_ns
        if layout.first_token is not None:
            columns["ttft_ns"], of_first = self._since(moments_ns, rows.values[layout.first_token], place_of)
            faults = of_first | faults
        failed = self._failed(rows)
        for column, paths in layout.lengths.items():
            lengths, of_length = counts(rows.first(paths))
            faults = of_length | faults
            if failed is not None:
                unknown = pc.and_(pa.array(failed), pc.equal(lengths, 0))
                lengths = pc.if_else(unknown, pa.scalar(None, lengths.type), lengths)
            columns[column] = lengths
        for column, path, read in (
            ("status", layout.status, statuses),
            ("model", layout.model, names),
            ("stream", layout.stream, flags),
            ("session", layout.session, sessions),
        ):
            if path is not None:
                columns[column] = read(rows.values[path])
        if layout.prompt is not None and self._blocks is not None:
            prompts = rows.values[layout.prompt]
            columns["prefix_blocks"] = pa.array([self._blocks.of(prompt) for prompt in prompts], PREFIX_TYPE)
        return RequestBatch(moments_ns, columns), faults

    def _since(
        self, moments_ns: npt.NDArray[np.int64], values: Values, place_of: Callable[[int], str]
    ) -> tuple[pa.Array, Faults]:
        """int64 ns from `moments_ns` to the stamps in `values`, not below 0, null where there is none."""
        given = [row for row, value in enumerate(values) if value is not None]
        later_ns, of_given = self._ends.column(
            values if len(given) == len(values) else [values[row] for row in given],
            lambda index: place_of(given[index]),
        )
        since_ns = np.zeros(len(values), dtype=np.int64)
        since_ns[given] = np.maximum(later_ns - moments_ns[given], 0)
        missing = np.ones(len(values), dtype=bool)
        missing[given] = False
        return pa.array(since_ns, mask=missing), {given[index]: why for index, why in of_given.items()}

    def _failed(self, rows: _Rows) -> npt.NDArray[np.bool_] | None:
        """The rows that are marked as failures; None if the log marks none."""
        if not self.layout.failed:
            return None
        failed = np.zeros(len(rows.numbers), dtype=bool)
        for path, mark in self.layout.failed.items():
            failed |= np.array([value == mark for value in rows.values[path]], dtype=bool)
        return failed

    def _endpoints(self, rows: _Rows) -> list[str | None]:
        layout = self.layout
        if layout.request is not None:
            requests = rows.values[layout.request]
            if not any(value is None for value in requests):
                return [self._filter.endpoint(str(request).encode()) for request in requests]
        else:
            requests = [None] * len(rows.numbers)
        targets = rows.first(layout.target) if layout.target else requests
        methods = rows.first(layout.method) if layout.method else requests
        return [
            self._endpoint(request, method, target)
            for request, method, target in zip(requests, methods, targets, strict=True)
        ]

    def _endpoint(self, request: object, method: object, target: object) -> str | None:
        if isinstance(request, str):
            return self._filter.endpoint(request.encode())
        if not isinstance(target, str):
            return None
        verb = method if isinstance(method, str) else "POST"
        return self._filter.endpoint(f"{verb} {target}".encode())


@dataclass(frozen=True, slots=True)
class _Rows:
    """Objects of a batch: the index of each one's line, and a list for each path."""

    numbers: Sequence[int]
    values: Mapping[str, list[Any]]

    def taken(self, kept: Sequence[int]) -> _Rows:
        return _Rows(
            [self.numbers[row] for row in kept],
            {path: [column[row] for row in kept] for path, column in self.values.items()},
        )

    def first(self, paths: Sequence[str]) -> list[Any]:
        """The first value that there is at one of `paths`, for each row."""
        column = self.values[paths[0]]
        for path in paths[1:]:
            if None not in column:
                break
            column = [
                value if value is not None else other
                for value, other in zip(column, self.values[path], strict=True)
            ]
        return column


def has_keys(head: Sequence[bytes], keys: Sequence[str]) -> bool:
    """Whether one of the first lines is a JSON object with all of `keys`."""
    for line in head[:20]:
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(document, dict) and all(key in document for key in keys):
            return True
    return False
