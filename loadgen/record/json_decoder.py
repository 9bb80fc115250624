"""A decoder for JSON lines that takes the values at some paths and skips all else.

msgspec decodes only what is asked for (jcristharif.com/msgspec, performance tips), so that a prompt within a line
costs little more than its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Any

import msgspec
import numpy as np
import orjson

from loadgen.record.line_batch import cut
from loadgen.record.value_columns import of_one_kind, whole_micros

Way = tuple[str, ...]
_SCALAR = int | float | str | bool | None
_LOOKED_AT = 8
# Objects of so many bytes of log stay in a core's own cache until all their columns are taken.
_PIECE_BYTES = 256 << 10


class UnevenBlockError(Exception):
    """A block that cannot be read at once: one of its lines is no object, or not of the expected kind."""


class JsonDecoder:
    """Decodes blocks of JSON lines into a column for each path.

    A dotted path may mean keys with dots in them: the way that `documents`, a few objects of the log, show is
    taken, or all ways that there are. exact: paths whose decimal numbers come as text where a double would lose
    digits. whole: paths whose values may be lists and objects. required: top-level keys that an object must have.
    Raises ValueError for a path that names a position in an array.
    """

    def __init__(
        self,
        paths: Iterable[str],
        exact: Sequence[str],
        whole: Sequence[str],
        required: Sequence[str],
        documents: Sequence[Any],
    ) -> None:
        self._ways = {path: _likely_ways(path, documents) for path in paths}
        if any(key.isdecimal() for ways in self._ways.values() for way in ways for key in way):
            raise ValueError("a position in an array")
        self._exact = tuple(path for path in self._ways if path in exact)
        self._required = tuple(_field(key) for key in required)
        tree = _tree(self._ways.values(), required)
        digits = {way for path in self._exact for way in self._ways[path]}
        types: dict[Way, Any] = {way: Any for path in whole for way in self._ways.get(path, [])}
        self._plain = msgspec.json.Decoder(_struct(tree, (), frozenset(required), types))
        types |= dict.fromkeys(digits, msgspec.Raw)
        self._digits = msgspec.json.Decoder(_struct(tree, (), frozenset(required), types))

    def columns(self, data: bytes, num_lines: int) -> tuple[Sequence[int], dict[str, list[Any]]]:
        """The lines of `data` that have all required keys, and the values at each path in them, None where missing.

        Raises UnevenBlockError if lines have to be looked at one by one.
        """
        try:
            kept, columns = self._decoded(self._plain, data, num_lines, list(self._ways))
            inexact = [path for path in self._exact if _may_lose_digits(columns[path])]
            if inexact:
                _, digits = self._decoded(self._digits, data, num_lines, inexact)
                columns |= {path: [_exact_value(raw) for raw in column] for path, column in digits.items()}
        except (msgspec.DecodeError, UnicodeDecodeError, orjson.JSONDecodeError, RecursionError) as exc:
            raise UnevenBlockError from exc
        return kept, columns

    def _decoded(
        self, decoder: Any, data: bytes, num_lines: int, paths: Sequence[str]
    ) -> tuple[Sequence[int], dict[str, list[Any]]]:
        columns: dict[str, list[Any]] = {path: [] for path in paths}
        lacking: list[int] = []
        num_rows = 0
        for piece in cut(data, _PIECE_BYTES):
            rows = decoder.decode_lines(piece)
            of_piece = self._lacking(rows)
            if of_piece:
                lacking += [num_rows + row for row in sorted(of_piece)]
                num_rows += len(of_piece)
                rows = [row for number, row in enumerate(rows) if number not in of_piece]
            num_rows += len(rows)
            for path in paths:
                columns[path] += self._column(path, rows)
        # An object over two lines, two in one line, or an empty line.
        if num_rows != num_lines:
            raise UnevenBlockError
        if not lacking:
            return range(num_lines), columns
        return np.delete(np.arange(num_lines), lacking).tolist(), columns

    def _lacking(self, rows: list[Any]) -> set[int]:
        """The rows that lack a required key."""
        lacking: set[int] = set()
        for name in self._required:
            column = _attribute_taker((name,))(rows)
            if msgspec.UNSET in column:
                lacking.update(row for row, value in enumerate(column) if value is msgspec.UNSET)
        return lacking

    def _column(self, path: str, rows: list[Any]) -> list[Any]:
        first, *others = (_along(way, rows) for way in self._ways[path])
        for other in others:
            first = [value if value is not None else last for value, last in zip(first, other, strict=True)]
        return first


def ways_of(path: str) -> list[Way]:
    """All ways that a dotted path may mean, keys with dots in them first."""
    parts = path.split(".")
    ways: list[Way] = []
    for cuts in product((False, True), repeat=len(parts) - 1):
        keys = [parts[0]]
        for part, is_own_key in zip(parts[1:], cuts, strict=True):
            if is_own_key:
                keys.append(part)
            else:
                keys[-1] += "." + part
        ways.append(tuple(keys))
    return ways


def _likely_ways(path: str, documents: Sequence[Any]) -> list[Way]:
    ways = ways_of(path)
    return next(([way] for way in ways for document in documents if _leads(way, document)), ways)


def _leads(way: Way, document: Any) -> bool:
    for key in way:
        if not isinstance(document, dict) or key not in document:
            return False
        document = document[key]
    return True


def _tree(ways: Iterable[Sequence[Way]], required: Sequence[str]) -> dict[str, Any]:
    """Keys within keys, as far as they are asked for."""
    tree: dict[str, Any] = {}
    for way in [way for of_path in ways for way in of_path] + [(key,) for key in required]:
        at = tree
        for key in way:
            at = at.setdefault(key, {})
    return tree


def _struct(tree: Mapping[str, Any], above: Way, required: frozenset[str], types: Mapping[Way, Any]) -> Any:
    """A type that holds the values of `tree` and nothing else."""
    fields = []
    for key, below in tree.items():
        way = (*above, key)
        value = _struct(below, way, frozenset(), types) | _SCALAR if below else types.get(way, _SCALAR)
        fields.append((_field(key), value, msgspec.UNSET if key in required else None))
    return msgspec.defstruct("Line", fields, rename={_field(key): key for key in tree}, gc=False)


def _field(key: str) -> str:
    """A key as a name that Python accepts."""
    return f"f{key.encode().hex()}"


def _along(way: Way, rows: list[Any]) -> list[Any]:
    names = tuple(_field(key) for key in way)
    try:
        return _attribute_taker(names)(rows)
    except AttributeError:
        column = rows
        for name in names:
            column = [getattr(value, name, None) for value in column]
        return column


@cache
def _attribute_taker(names: tuple[str, ...]) -> Callable[[list[Any]], list[Any]]:
    """A function that takes attributes of attributes of all rows: three times as fast as operator.attrgetter."""
    assert all(name.isalnum() for name in names)
    taker: Callable[[list[Any]], list[Any]] = eval(f"lambda rows: [row.{'.'.join(names)} for row in rows]")
    return taker


def _may_lose_digits(column: list[Any]) -> bool:
    if not any(isinstance(value, float) for value in column[:_LOOKED_AT]) and float not in set(
        map(type, column)
    ):
        return False
    array = of_one_kind(column)
    return array is None or array.null_count > 0 or whole_micros(array) is None


def _exact_value(raw: Any) -> Any:
    """A value as JSON wrote it: a fraction as text, all else decoded."""
    if raw is None:
        return None
    text = bytes(raw)
    if text[:1] in b'"[{tfn':
        return orjson.loads(text)
    return text.decode() if b"." in text or b"e" in text or b"E" in text else int(text)
