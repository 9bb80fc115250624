"""JSON lines of a known layout -> requests: each format of this kind is a table of its fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from loadgen.errors import RecordError
from loadgen.record.fields import (
    count_or_none,
    duration_ns_or_none,
    name_or_none,
    status_or_none,
    unit_ns,
)
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.json_path import JsonPath
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch, RequestRows
from loadgen.record.request_filter import RequestFilter
from loadgen.record.settings import RecordSettings
from loadgen.record.stamp_reader import StampReader


@dataclass(frozen=True, slots=True)
class JsonLayout:
    """Where a JSON log has what. Paths are dotted; lists of them are tried in turn.

    keys: an object that lacks one of them is no request of this log, and counts as other. only: values that
    mark a request. marks: what the time stamps; from a completion the duration is subtracted. zone: of stamps
    without one, by the format's documentation. failed: values that mark a failure, whose token counts
    of 0 mean "not known".
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
    request: str | None = None
    method: str | None = None
    target: str | None = None
    only: Mapping[str, object] = field(default_factory=dict)
    failed: Mapping[str, object] = field(default_factory=dict)


class JsonRecords:
    """Reads JSON lines by a layout."""

    def __init__(self, layout: JsonLayout, settings: RecordSettings) -> None:
        self._layout = layout
        self._filter = RequestFilter(settings.path_prefixes)
        zone = settings.zone or layout.zone
        self._stamps = StampReader(layout.time_unit, zone)
        self._ends = StampReader(layout.time_unit, zone)
        self._paths: dict[str, JsonPath] = {}
        self._columns = ("duration_ns", "ttft_ns", "status", "model", "stream", "endpoint", *layout.lengths)

    def stamp_facts(self) -> StampFacts:
        """What the stamps meant."""
        layout = self._layout
        subtracted = f" - {layout.duration}" if layout.marks == "completion" else ""
        return StampFacts(layout.marks, layout.time[0] + subtracted, zone=self._stamps.zone_used)

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        """The requests in `batches`."""
        if self._has_path:
            findings.assume(self._filter.description)
        rows = RequestRows(self._columns)
        for batch in batches:
            for index, line in enumerate(batch.lines()):
                if batch.is_unwrapped and not line.startswith(b"{"):
                    findings.num_other += 1
                    continue
                number = batch.number_of(index)
                try:
                    document = orjson.loads(line)
                    if not isinstance(document, dict) or not document:
                        raise ValueError("no JSON object")
                    if not self._add(document, f"{batch.source}:{number}", rows):
                        findings.num_other += 1
                except RecordError:
                    raise
                except ValueError as exc:
                    reason = str(exc) if line else "an empty line"
                    findings.add_malformed(batch.source, number, reason, line)
            yield rows.take()
        self._stamps.report(findings)

    @property
    def _has_path(self) -> bool:
        return self._layout.request is not None or self._layout.target is not None

    def _value(self, document: dict[str, Any], path: str | None) -> Any:
        if path is None:
            return None
        getter = self._paths.get(path)
        if getter is None:
            getter = self._paths[path] = JsonPath(path)
        return getter(document)

    def _first(self, document: dict[str, Any], paths: Sequence[str]) -> Any:
        for path in paths:
            value = self._value(document, path)
            if value is not None:
                return value
        return None

    def _add(self, document: dict[str, Any], place: str, rows: RequestRows) -> bool:
        """Take one object; False if it is no request to be kept."""
        layout = self._layout
        if any(key not in document for key in layout.keys):
            return False
        if any(self._value(document, path) != value for path, value in layout.only.items()):
            return False
        endpoint = self._endpoint(document) if self._has_path else None
        if self._has_path and endpoint is None:
            return False
        moment_ns = self._stamps.unix_ns(self._first(document, layout.time), place)
        duration_ns = duration_ns_or_none(
            self._value(document, layout.duration), unit_ns(layout.duration_unit)
        )
        if layout.end is not None and self._value(document, layout.end) is not None:
            duration_ns = max(0, self._ends.unix_ns(self._value(document, layout.end), place) - moment_ns)
        if layout.marks == "completion":
            if duration_ns is None:
                raise ValueError("the duration is missing, so the arrival cannot be had")
            moment_ns -= duration_ns
        ttft_ns = None
        first_token = self._value(document, layout.first_token)
        if first_token is not None:
            ttft_ns = max(0, self._ends.unix_ns(first_token, place) - moment_ns)
        failed = any(self._value(document, path) == value for path, value in layout.failed.items())
        lengths = [count_or_none(self._first(document, paths)) for paths in layout.lengths.values()]
        if failed:
            lengths = [length or None for length in lengths]
        stream = self._value(document, layout.stream)
        rows.add(
            moment_ns,
            (
                duration_ns,
                ttft_ns,
                status_or_none(self._value(document, layout.status)),
                name_or_none(self._value(document, layout.model)),
                stream if isinstance(stream, bool) else None,
                endpoint,
                *lengths,
            ),
        )
        return True

    def _endpoint(self, document: dict[str, Any]) -> str | None:
        layout = self._layout
        if layout.request is not None:
            request = self._value(document, layout.request)
            if isinstance(request, str):
                return self._filter.endpoint(request.encode())
        target = self._value(document, layout.target)
        if not isinstance(target, str):
            return None
        method = self._value(document, layout.method)
        return self._filter.endpoint_of(method if isinstance(method, str) else "POST", target)


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
