"""Access log lines of one pattern -> columns of bytes, with what is no traffic counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.record.findings import Findings
from loadgen.record.formats.nginx_pattern import NginxPattern
from loadgen.record.line_batch import LineBatch, count_lines, cut
from loadgen.record.request_filter import RequestFilter
from loadgen.record.value_columns import Faults, recoded
from loadgen.trace.moments import calendar_ns

_MAY_BE_EMPTY = ("request", "request_method", "request_uri", "uri")
# A block in which lines cannot be told apart is cut in pieces, and these again, before lines are matched singly.
_SMALLEST_PIECE = 1 << 14
_HEAD_LINES = 1000

Lines = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class AccessColumns:
    """The requests of a batch that are kept: a column of bytes for each variable, and the endpoints.

    numbers: the index of each one's line in the batch. endpoints: dictionary<int32, string>, null where the pattern
    has no path.
    """

    numbers: Lines
    values: dict[str, pa.Array]
    endpoints: pa.DictionaryArray

    def moments_ns(self, name: str) -> tuple[npt.NDArray[np.int64], Faults]:
        """Unix ns of calendar stamps that carry their zone, as int64, and why some are none."""

        def read(texts: list[str]) -> tuple[npt.NDArray[np.int64], Faults]:
            moments_ns = np.zeros(len(texts), dtype=np.int64)
            faults: Faults = {}
            for place, text in enumerate(texts):
                try:
                    ns, offset_ns = calendar_ns(text)
                    moments_ns[place] = ns - (offset_ns or 0)
                except ValueError as exc:
                    faults[place] = str(exc)
            return moments_ns, faults

        return read_distinct(self.values[name], read)


def read_distinct(
    values: pa.Array, read: Callable[[list[str]], tuple[npt.NDArray[np.int64], Faults]]
) -> tuple[npt.NDArray[np.int64], Faults]:
    """What `read` makes of the distinct ones among `values` (bytes), and their faults, for each of `values`."""
    coded = values.dictionary_encode()
    found, faults = read([text.decode("latin-1") for text in coded.dictionary.to_pylist()])
    codes = np.asarray(coded.indices)
    at_fault = np.flatnonzero(np.isin(codes, list(faults))).tolist() if faults else []
    return found[codes], {row: faults[int(codes[row])] for row in at_fault}


def pattern_of(batch: LineBatch, patterns: Sequence[NginxPattern]) -> NginxPattern:
    """The first of `patterns` that one of the first lines matches; the first of all if none does."""
    head = b"\n".join(batch.lines()[:_HEAD_LINES])
    return next(
        (one for one in patterns if any(any(found) for found in one.regex.findall(head))), patterns[0]
    )


def read_access_lines(
    batch: LineBatch, pattern: NginxPattern, request_filter: RequestFilter, findings: Findings
) -> AccessColumns:
    """The lines of `batch` that match and are kept; other and malformed lines go to `findings`."""
    parts = list(_parts(batch.data, batch.num_lines, 0, pattern)) or [
        _matched(b"", np.empty(0, dtype=np.int64), pattern)
    ]
    lines = np.concatenate([part_lines for part_lines, _ in parts])
    columns = {name: pa.concat_arrays([part[name] for _, part in parts]) for name in pattern.names}
    if np.any(lines[1:] < lines[:-1]):
        order = np.argsort(lines, kind="stable")
        lines, columns = (
            lines[order],
            {name: column.take(pa.array(order)) for name, column in columns.items()},
        )
    if lines.size < batch.num_lines:
        _tell_unmatched(batch, lines, findings)
    endpoints = _endpoints(columns, lines.size, request_filter)
    keep = endpoints.is_valid()
    findings.num_other += lines.size - pc.sum(keep).as_py() if lines.size else 0
    if endpoints.null_count:
        columns = {name: column.filter(keep) for name, column in columns.items()}
        lines = lines[np.asarray(keep)]
        endpoints = endpoints.filter(keep)
    if not any(name in columns for name in _MAY_BE_EMPTY):
        endpoints = pa.nulls(len(endpoints), endpoints.type)
    return AccessColumns(lines, columns, endpoints)


def _parts(
    data: bytes, num_lines: int, first: int, pattern: NginxPattern
) -> Iterator[tuple[Lines, dict[str, pa.Array]]]:
    """The lines of `data` that match, by their index from `first` on, and their columns; in pieces, any order."""
    if not data:
        return
    if pattern.cells is None:
        yield _matched(data, np.arange(first, first + num_lines), pattern)
        return
    found = pattern.cells.columns(data, num_lines)
    # One piece is what a long line leaves uncut: nothing is won by trying it again.
    pieces = list(cut(data, len(data) // 16)) if found is None and len(data) > _SMALLEST_PIECE else []
    if len(pieces) > 1:
        for piece in pieces:
            num_of_piece = count_lines(piece)
            yield from _parts(piece, num_of_piece, first, pattern)
            first += num_of_piece
        return
    if found is None:
        yield _matched(data, np.arange(first, first + num_lines), pattern)
        return
    split, columns = found
    yield split + first, columns
    if split.size < num_lines:
        left = np.delete(np.arange(num_lines), split)
        lines = data.removesuffix(b"\n").split(b"\n")
        yield _matched(b"\n".join([lines[index] for index in left.tolist()]) + b"\n", left + first, pattern)


def _matched(data: bytes, numbers: Lines, pattern: NginxPattern) -> tuple[Lines, dict[str, pa.Array]]:
    """The same by regular expression, which reads any line; numbers: the index of each line of `data`."""
    rows = pattern.regex.findall(data.removesuffix(b"\n")) if data else []
    if len(pattern.names) == 1:
        rows = [(value,) for value in rows]
    # A value that no well-formed line lacks: the line is malformed where it is empty.
    mark = next(place for place, name in enumerate(pattern.names) if name not in _MAY_BE_EMPTY)
    kept = [index for index, row in enumerate(rows) if row[mark]]
    columns = {
        name: pa.array([rows[index][place] for index in kept], pa.binary())
        for place, name in enumerate(pattern.names)
    }
    return numbers[kept], columns


def _endpoints(
    columns: dict[str, pa.Array], num_rows: int, request_filter: RequestFilter
) -> pa.DictionaryArray:
    """The endpoint of each line, null for those that are not to be kept."""
    requests = columns.get("request")
    if requests is None:
        paths = columns["request_uri"] if "request_uri" in columns else columns.get("uri")
        if paths is None:
            return pa.array([""] * num_rows, pa.string()).dictionary_encode()
        methods = columns.get("request_method", pa.scalar(b"POST", pa.binary()))
        requests = pc.binary_join_element_wise(methods, paths, b" ")
    coded = requests.dictionary_encode()
    return recoded(coded, [request_filter.endpoint(request) for request in coded.dictionary.to_pylist()])


def _tell_unmatched(batch: LineBatch, well_formed: Lines, findings: Findings) -> None:
    if batch.is_unwrapped:
        # A wrapper carries lines of any kind.
        findings.num_other += batch.num_lines - well_formed.size
        return
    lines = batch.lines()
    for index in np.delete(np.arange(batch.num_lines), well_formed).tolist():
        reason = "not a line of this log format" if lines[index] else "an empty line"
        findings.add_malformed(batch.source, batch.number_of(index), reason, lines[index])
