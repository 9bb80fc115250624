"""Lines of one pattern -> columns, by splitting them at their spaces; lines that do not split so are left over.

The splitting is Arrow's CSV reader's, which is several times as fast as a regular expression. It takes the cells of
a line for what they are only where the pattern has a variable, and no more than one, between two spaces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

Rows = npt.NDArray[np.int64]

# What most variables have to match; checked by faster means than a regular expression.
MAX_DIGITS = 9
WHOLE_NUMBER = rf"\d{{1,{MAX_DIGITS}}}|-"
DECIMAL_NUMBERS = {
    rf"\d{{{least},{most}}}\.\d{{1,{MAX_DIGITS}}}": (least, most) for least, most in ((9, 11), (1, 8))
}
_FAR = 1 << 30
_VARIABLE = "\0"
# A cell is quoted as a whole or not at all; what is bare may be empty.
_CELL = re.compile(r'(?:^|(?<= ))(?:("[^"]*")|([^ "]*))(?= |$)')
_CELLS = re.compile(r'(?:"[^"]*"|[^ "]*)(?: (?:"[^"]*"|[^ "]*))*')


@dataclass(frozen=True, slots=True)
class Cell:
    """A place between two spaces: its position in the line, the variable in it, and the text around that."""

    position: int
    name: str
    before: bytes
    after: bytes
    spans: int = 1


@dataclass(frozen=True, slots=True)
class CellPattern:
    """How lines split: into `width` cells, of which `cells` are read.

    checks: for each variable the regular expression that its value has to match, None for any value.
    """

    width: int
    cells: tuple[Cell, ...]
    checks: Mapping[str, str | None]

    def columns(self, data: bytes, num_lines: int) -> tuple[Rows, dict[str, pa.Array]] | None:
        """The indices of the lines that split as they should, and a column of bytes for each variable.

        None if the lines cannot be told apart: one holds a quote that does not end.
        """
        # A lone CR would end a line, a backslash may hide a quote.
        if b"\r" in data or b"\\" in data:
            return None
        # Lines that do not split are handed over as text.
        if not data.isascii() and not _is_utf8(data):
            return None
        uneven: list[int] = []
        try:
            table = self._split(data, uneven)
        except pa.ArrowInvalid:
            # Not one line splits.
            return None
        # An empty line was passed over, or a quote that does not end took in several.
        if table.num_rows + len(uneven) != num_lines:
            return None
        lines = np.arange(num_lines, dtype=np.int64)
        if uneven:
            lines = np.delete(lines, uneven)
        columns: dict[str, pa.Array] = {}
        fits = np.ones(len(lines), dtype=bool)
        for cell in self.cells:
            columns[cell.name], fits_here = self._value(table, cell)
            fits &= fits_here
        if not fits.all():
            mask = pa.array(fits)
            columns = {name: column.filter(mask) for name, column in columns.items()}
            lines = lines[fits]
        return lines, columns

    def _split(self, data: bytes, uneven: list[int]) -> pa.Table:
        def put_aside(row: csv.InvalidRow) -> str:
            uneven.append(row.number - 1)
            return "skip"

        names = [str(position) for position in range(self.width)]
        wanted = [str(cell.position + further) for cell in self.cells for further in range(cell.spans)]
        return csv.read_csv(
            pa.py_buffer(data),
            csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            csv.ParseOptions(delimiter=" ", double_quote=False, invalid_row_handler=put_aside),
            csv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(names, pa.binary()),
                strings_can_be_null=False,
            ),
        )

    def _value(self, table: pa.Table, cell: Cell) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
        """The variable of a cell, and where the text around it is as it should be."""
        values = _whole(table.column(str(cell.position)))
        if cell.spans == 2:
            values = pc.binary_join_element_wise(values, _whole(table.column(str(cell.position + 1))), b" ")
        fits = np.ones(len(values), dtype=bool)
        if cell.before:
            fits &= np.asarray(pc.starts_with(values, cell.before))
        if cell.after:
            fits &= np.asarray(pc.ends_with(values, cell.after))
        length = pc.binary_length(values)
        if cell.before:
            values = pc.binary_replace_slice(values, 0, len(cell.before), b"")
        if cell.after:
            values = pc.binary_replace_slice(values, -len(cell.after), _FAR, b"")
        fits &= np.asarray(length) >= len(cell.before) + len(cell.after)
        check = self.checks[cell.name]
        if check is not None:
            fits &= np.asarray(_matches(values, check))
        return values, fits


def cell_pattern(
    texts: Sequence[str], variables: Sequence[str], checks: Mapping[str, str | None]
) -> CellPattern | None:
    """How lines of the pattern texts[0] variables[0] texts[1] ... texts[-1] split at their spaces.

    checks: the variables wanted, with what each has to match. None if they cannot be had so: two in one cell, or
    quotes that do not enclose a whole cell.
    """
    template = _VARIABLE.join(texts)
    if _CELLS.fullmatch(template) is None:
        return None
    names = iter(variables)
    cells: dict[str, Cell] = {}
    position = 0
    for quoted, bare in _CELL.findall(template):
        text = quoted or bare
        inside = [next(names) for _ in range(text.count(_VARIABLE))]
        wanted = [name for name in inside if name in checks and name not in cells]
        spans = 2 if "time_local" in inside and not quoted else 1
        if wanted and len(inside) > 1:
            return None
        if wanted:
            before, _, after = text.strip('"').partition(_VARIABLE)
            cells[wanted[0]] = Cell(position, wanted[0], before.encode(), after.encode(), spans)
        position += spans
    return CellPattern(position, tuple(cells.values()), checks)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _matches(values: pa.Array, check: str) -> Any:
    if check == WHOLE_NUMBER:
        texts = values.cast(pa.string())
        fits = np.asarray(pc.ascii_is_decimal(texts)) & (np.asarray(pc.binary_length(texts)) <= MAX_DIGITS)
        return fits if fits.all() else fits | np.asarray(pc.equal(texts, "-"))
    if check in DECIMAL_NUMBERS:
        texts = values.cast(pa.string())
        before = np.asarray(pc.find_substring(texts, "."))
        behind = np.asarray(pc.binary_length(texts)) - before - 1
        least, most = DECIMAL_NUMBERS[check]
        has_digits = np.asarray(pc.ascii_is_decimal(pc.replace_substring(texts, ".", "", max_replacements=1)))
        return has_digits & (before >= least) & (before <= most) & (behind >= 1) & (behind <= MAX_DIGITS)
    return pc.match_substring_regex(values, f"^(?:{check})$")


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
