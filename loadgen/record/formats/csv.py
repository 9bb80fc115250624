"""Tables with a header line (CSV, TSV, `;`): the user says which column is which."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import LineBatch
from loadgen.record.named_fields import NamedFields
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings

_ROWS_PER_BATCH = 50_000
_MAX_CELL = 64 << 20
# Bytes that are no UTF-8, and control characters: no header of a table.
_NO_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ufffd]")
_DELIMITERS = (",", ";", "\t", "|")

_COLUMN_NAME = re.compile(r"[\w .()/%#@-]{1,40}")


class CsvFormat:
    """Generic CSV. Quoted cells may hold line breaks; each file has its own header."""

    needs = "a request is a row below the header"

    def __init__(self, settings: RecordSettings) -> None:
        self._fields = NamedFields(settings)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        if not head or head[0].lstrip().startswith((b"{", b"[")):
            return False
        header = head[0].decode("utf-8", "replace")
        if _NO_TEXT.search(header):
            return False
        return len(_names(header, delimiter_of(header))) > 1

    @staticmethod
    def fields_of(head: Sequence[bytes]) -> list[str]:
        """The columns of the header; none if it looks like text, which is not to be shown."""
        header = next((line for line in head if line.strip()), b"").decode("utf-8", "replace")
        names = _names(header, delimiter_of(header))
        return names if all(_COLUMN_NAME.fullmatch(name) for name in names) else []

    def stamp_facts(self) -> StampFacts:
        return self._fields.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        # A prompt in a cell may be longer than the 128 KiB that the module takes by default.
        csv.field_size_limit(_MAX_CELL)
        lines = _Lines(batches)
        while lines.begin_file():
            header = lines.header()
            delimiter = delimiter_of(header)
            rows = csv.reader(lines, delimiter=delimiter, strict=False)
            names = _names(header, delimiter)
            places = self._places(names, lines.source)
            cells = _Cells(lines.source)
            while True:
                first_line = lines.number + 1
                try:
                    row = next(rows)
                except StopIteration:
                    break
                except csv.Error as exc:
                    findings.add_malformed(lines.source, first_line, str(exc), b"")
                    continue
                if row and len(row) != len(names):
                    reason = f"{len(row)} cells, expected {len(names)}"
                    findings.add_malformed(lines.source, first_line, reason, ";".join(row).encode())
                elif row:
                    cells.rows.append(row)
                    cells.lines.append(first_line)
                if len(cells.rows) >= _ROWS_PER_BATCH:
                    yield self._requests(cells, places, findings)
                    cells = _Cells(lines.source)
            yield self._requests(cells, places, findings)
        self._fields.report(findings)

    def _requests(self, cells: _Cells, places: Mapping[str, int], findings: Findings) -> RequestBatch:
        columns = {name: [row[place] for row in cells.rows] for name, place in places.items()}
        requests, faults = self._fields.read(columns, lambda row: f"{cells.source}:{cells.lines[row]}")
        for row, reason in sorted(faults.items()):
            text = ";".join(cells.rows[row]).encode()
            findings.add_malformed(cells.source, cells.lines[row], reason, text)
        return requests

    def _places(self, names: list[str], source: str) -> dict[str, int]:
        """The places of the columns in this file. Raises RecordError if one that is needed is not there."""
        places = {name: place for place, name in enumerate(names)}
        for wanted in self._fields.fields:
            if wanted not in places:
                raise RecordError(
                    f"{source}: no column {wanted!r}", hint="there are: " + ", ".join(names)[:300]
                )
            if names.count(wanted) > 1:
                raise RecordError(
                    f"{source}: column {wanted!r} is there {names.count(wanted)} times",
                    hint="give each column of the header a name of its own",
                )
        return {wanted: places[wanted] for wanted in self._fields.fields}


@dataclass(slots=True)
class _Cells:
    """Rows of one file, and the line at which each begins."""

    source: str
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)


class _Lines(Iterator[str]):
    """Lines of one file after the other, as text with their line ends."""

    def __init__(self, batches: Iterable[LineBatch]) -> None:
        self._batches = iter(batches)
        self._waiting: LineBatch | None = None
        self._lines: list[str] = []
        self._next = 0
        self.number = 0
        self.source = ""

    def begin_file(self) -> bool:
        """Go to the next file; False when there is none."""
        batch = self._waiting or next(self._batches, None)
        if batch is None:
            return False
        self._waiting = None
        self.source, self.number = batch.source, 0
        self._load(batch)
        return True

    def header(self) -> str:
        """The first line that is not blank."""
        return next((line for line in self if line.strip()), "")

    def __next__(self) -> str:
        while self._next >= len(self._lines):
            batch = next(self._batches, None)
            if batch is None:
                raise StopIteration
            if batch.is_first:
                self._waiting = batch
                raise StopIteration
            self._load(batch)
        line = self._lines[self._next]
        self._next += 1
        self.number += 1
        return line

    def _load(self, batch: LineBatch) -> None:
        self._lines = batch.data.decode("utf-8", errors="replace").replace("\0", "").split("\n")
        self._next = 0
        last = self._lines.pop()
        self._lines = [line + "\n" for line in self._lines]
        if last:
            self._lines.append(last)


def delimiter_of(header: str) -> str:
    """What parts the cells of a header line: the most frequent of , ; tab and | outside quotes."""
    outside = "".join(header.split('"')[::2])
    return max(_DELIMITERS, key=outside.count)


def _names(header: str, delimiter: str) -> list[str]:
    """The names in a header line; none if it is no CSV at all."""
    try:
        return [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
    except csv.Error:
        return []
