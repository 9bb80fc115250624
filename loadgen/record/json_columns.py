"""JSON lines -> columns of the values at some paths: a block at a time, and line by line where that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from loadgen.record.json_decoder import JsonDecoder, UnevenBlockError
from loadgen.record.json_path import JsonPath
from loadgen.record.line_batch import WRITTEN_FIELD, LineBatch, count_lines, cut

# Longer than a double can hold exactly near 2e9 s: such a number is read again by its digits.
_EXACT_DIGITS = 17
_LOOKED_AT = 8
# A block with a line that fails is cut in pieces, and each of those again, before lines are read singly.
_SMALLEST_PIECE = 1 << 14


@dataclass(frozen=True, slots=True)
class JsonColumns:
    """Values of the JSON objects in a batch of lines.

    numbers: for each row, the index of its line in the batch. values: a list for each path, None where the object
    has no such value. faults: (index of the line, reason) of lines that hold no object.
    """

    numbers: Sequence[int]
    values: Mapping[str, list[Any]]
    faults: Sequence[tuple[int, str]]


class JsonColumnReader:
    """Reads the values at dotted `paths` out of JSON lines.

    exact: those of the paths whose decimal numbers come as text where a double would lose digits.
    whole: those whose values may be lists and objects.
    required: top-level keys; an object that lacks one is left out, without being at fault.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        exact: Sequence[str] = (),
        whole: Sequence[str] = (),
        required: Sequence[str] = (),
    ) -> None:
        self._paths = tuple(dict.fromkeys(path for path in paths if path != WRITTEN_FIELD))
        self._exact = tuple(exact)
        self._whole = tuple(whole)
        self._required = tuple(required)
        self._getters = {path: JsonPath(path) for path in self._paths}
        self._decoder: JsonDecoder | None = None
        self._is_prepared = False

    def read(self, batch: LineBatch) -> JsonColumns:
        """The objects in `batch`, in its order; the wrapper's moments under WRITTEN_FIELD where there are."""
        if not self._is_prepared and batch.data:
            self._prepare(batch)
        parts = list(self._parts(batch.data, batch.num_lines, 0, batch))
        if len(parts) == 1:
            numbers, values = parts[0].numbers, dict(parts[0].values)
        else:
            numbers = [number for part in parts for number in part.numbers]
            values = {path: [value for part in parts for value in part.values[path]] for path in self._paths}
        if batch.written is not None:
            values[WRITTEN_FIELD] = [batch.written[number] for number in numbers]
        return JsonColumns(numbers, values, [fault for part in parts for fault in part.faults])

    def __getstate__(self) -> dict[str, Any]:
        """Decoders are made anew where they are used: they cannot be sent to another process."""
        return {**self.__dict__, "_decoder": None, "_is_prepared": False}

    def _prepare(self, batch: LineBatch) -> None:
        try:
            self._decoder = JsonDecoder(
                self._paths, self._exact, self._whole, self._required, _documents(batch.data)
            )
        except ValueError:
            # Positions in arrays: every object has to be decoded whole.
            self._decoder = None
        self._is_prepared = True

    def _parts(self, data: bytes, num_lines: int, first: int, batch: LineBatch) -> Iterator[JsonColumns]:
        """`data`, which begins at line `first` of the batch, in as large pieces as can be read at once."""
        if self._decoder is not None and data:
            try:
                rows, values = self._decoder.columns(data, num_lines)
            except UnevenBlockError:
                # One piece is what a long line leaves uncut: nothing is won by trying it again.
                pieces = list(cut(data, len(data) // 16)) if len(data) > _SMALLEST_PIECE else []
                if len(pieces) > 1:
                    for piece in pieces:
                        num_of_piece = count_lines(piece)
                        yield from self._parts(piece, num_of_piece, first, batch)
                        first += num_of_piece
                    return
            else:
                yield JsonColumns([first + row for row in rows] if first else rows, values, [])
                return
        yield self._line_by_line(data, first, is_wrapped=batch.is_unwrapped)

    def _line_by_line(self, data: bytes, first: int, *, is_wrapped: bool) -> JsonColumns:
        numbers: list[int] = []
        faults: list[tuple[int, str]] = []
        values: dict[str, list[Any]] = {path: [] for path in self._paths}
        for number, ended in enumerate(data.removesuffix(b"\n").split(b"\n") if data else [], start=first):
            line = ended.removesuffix(b"\r")
            if is_wrapped and not line.startswith(b"{"):
                # A wrapper carries lines of any kind.
                continue
            try:
                document = orjson.loads(line)
                if not isinstance(document, dict):
                    raise ValueError("no JSON object")
            except ValueError as exc:
                faults.append((number, str(exc) if line else "an empty line"))
                continue
            if any(key not in document for key in self._required):
                continue
            if any(_is_long(self._getters[path](document)) for path in self._exact if path in self._getters):
                document = json.loads(line, parse_float=str)
            numbers.append(number)
            for path, getter in self._getters.items():
                values[path].append(getter(document))
        return JsonColumns(numbers, values, faults)


def _documents(data: bytes) -> list[Any]:
    documents = []
    for line in data[: 4 * _SMALLEST_PIECE].split(b"\n")[:_LOOKED_AT]:
        try:
            documents.append(orjson.loads(line))
        except orjson.JSONDecodeError:
            continue
    return documents


def _is_long(value: object) -> bool:
    return isinstance(value, float) and len(repr(value)) > _EXACT_DIGITS
