"""Access log lines of one pattern -> columns of bytes, with what is no traffic counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadgen.record.findings import Findings
from loadgen.record.formats.nginx_pattern import NginxPattern
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_filter import RequestFilter
from loadgen.trace.moments import calendar_ns

_MAY_BE_EMPTY = ("request", "request_method", "request_uri", "uri")


@dataclass(frozen=True, slots=True)
class AccessColumns:
    """The requests of a batch that are kept: a sequence of bytes for each variable, all of one length."""

    values: dict[str, Sequence[bytes]]
    endpoints: list[str | None]

    def moments_ns(self, name: str) -> npt.NDArray[np.int64]:
        """Unix ns of calendar stamps that carry their zone, as int64. Raises ValueError if one is none."""
        texts = self.values[name]
        moments = np.empty(len(texts), dtype=np.int64)
        for row, text in enumerate(texts):
            ns, offset_ns = calendar_ns(text.decode("latin-1"))
            moments[row] = ns - (offset_ns or 0)
        return moments


def read_access_lines(
    batch: LineBatch, pattern: NginxPattern, request_filter: RequestFilter, findings: Findings
) -> AccessColumns:
    """The lines of `batch` that match and are kept; other and malformed lines go to `findings`."""
    if not batch.data:
        return AccessColumns({name: [] for name in pattern.names}, [])
    rows = pattern.regex.findall(batch.data.removesuffix(b"\n"))
    if len(pattern.names) == 1:
        rows = [(value,) for value in rows]
    names = pattern.names
    columns: dict[str, Sequence[bytes]] = dict(zip(names, zip(*rows, strict=True), strict=True))
    # A value that no well-formed line lacks: the line is malformed where it is empty.
    marks = columns[next(name for name in names if name not in _MAY_BE_EMPTY)]
    num_malformed = list(marks).count(b"")
    if num_malformed:
        _tell_malformed(batch, marks, findings)
    endpoints = _endpoints(columns, len(rows), request_filter)
    kept = [
        row
        for row, (endpoint, mark) in enumerate(zip(endpoints, marks, strict=True))
        if endpoint is not None and mark
    ]
    findings.num_other += len(rows) - num_malformed - len(kept)
    if len(kept) < len(rows):
        columns = {name: [values[row] for row in kept] for name, values in columns.items()}
        endpoints = [endpoints[row] for row in kept]
    return AccessColumns(columns, [endpoint or None for endpoint in endpoints])


def _endpoints(
    columns: dict[str, Sequence[bytes]], num_rows: int, request_filter: RequestFilter
) -> list[str | None]:
    if "request" in columns:
        return [request_filter.endpoint(request) for request in columns["request"]]
    paths = columns.get("request_uri") or columns.get("uri")
    if paths is None:
        return [""] * num_rows
    methods = columns.get("request_method") or [b"POST"] * num_rows
    return [
        request_filter.endpoint(method + b" " + path) for method, path in zip(methods, paths, strict=True)
    ]


def _tell_malformed(batch: LineBatch, marks: Sequence[bytes], findings: Findings) -> None:
    lines = batch.lines()
    for row, mark in enumerate(marks):
        if not mark:
            reason = "not a line of this log format" if lines[row] else "an empty line"
            findings.add_malformed(batch.source, batch.number_of(row), reason, lines[row])
