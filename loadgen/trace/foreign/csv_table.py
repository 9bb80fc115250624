"""A foreign CSV by the names of its columns, with the line of each error."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import TypeVar

from loadgen.errors import TraceError

Value = TypeVar("Value")


class CsvTable:
    """Rows of a CSV with a header line; quoted line breaks, CR LF and a missing last line end are fine.

    Raises TraceError when a row has fewer cells than the header.
    """

    def __init__(self, text: str) -> None:
        reader = csv.reader(io.StringIO(text, newline=""))
        self.header = [name.strip() for name in next(reader, [])]
        self._rows: list[list[str]] = []
        self._lines: list[int] = []
        for row in reader:
            if not row:
                continue
            if len(row) < len(self.header):
                raise TraceError(f"line {reader.line_num}: {len(row)} cells, expected {len(self.header)}")
            self._rows.append(row)
            self._lines.append(reader.line_num)

    @property
    def num_rows(self) -> int:
        return len(self._rows)

    def column(self, name: str, convert: Callable[[str], Value]) -> list[Value]:
        """The column `name`, each cell through `convert`.

        Raises TraceError naming line and column where `convert` raises ValueError, or if it is missing.
        """
        if name not in self.header:
            raise TraceError(f"no column {name!r}; there are {', '.join(self.header)}")
        position = self.header.index(name)
        values: list[Value] = []
        for row, line in zip(self._rows, self._lines, strict=True):
            try:
                values.append(convert(row[position]))
            except ValueError as exc:
                raise TraceError(f"line {line}: column {name}: {exc}") from exc
        return values


def header_of(head: str) -> list[str]:
    """The names in the first line."""
    lines = head.splitlines()
    return [name.strip() for name in next(csv.reader(lines[:1]), [])] if lines else []
