"""A foreign JSONL file: one object a line, with the line of each error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from loadgen.errors import TraceError
from loadgen.trace.moments import number_ns

_MOST = 2**63 - 1


def json_objects(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line number, object) of each line that is not blank. Raises TraceError at the first that is none."""
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError as exc:
            raise TraceError(f"line {number}: no JSON ({exc})") from exc
        if not isinstance(document, dict):
            raise TraceError(f"line {number}: no JSON object")
        yield number, document


def first_keys(head: str) -> set[str]:
    """The keys of the objects in the first lines; none if the first line is no object."""
    keys: set[str] = set()
    for line in head.split("\n"):
        if not line.strip():
            continue
        try:
            document = orjson.loads(line)
        except orjson.JSONDecodeError:
            return keys
        if not isinstance(document, dict):
            return keys
        keys |= document.keys()
    return keys


def count_of(document: dict[str, Any], key: str, line: int) -> int:
    """A whole number, 0 or more, under `key`. Raises TraceError otherwise."""
    value = document.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TraceError(f"line {line}: {key} is {value!r}, expected a whole number, 0 or more")
    return value


def moment_text(document: dict[str, Any], key: str, line: int) -> str:
    """The number under `key`, as its decimal digits. Raises TraceError otherwise."""
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TraceError(f"line {line}: {key} is {value!r}, expected a number")
    return str(value)


def moment_of(document: dict[str, Any], key: str, line: int, unit_ns: int) -> int:
    """Nanoseconds of the number of units under `key`. Raises TraceError naming line and key if it is none."""
    try:
        return number_ns(moment_text(document, key, line), unit_ns)
    except ValueError as exc:
        raise TraceError(f"line {line}: {key}: {exc}") from exc


def ids_of(document: dict[str, Any], key: str, line: int) -> list[int] | None:
    """A list of 64-bit integers under `key`, None where there is none. Raises TraceError otherwise."""
    value = document.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(
        type(one) is int and -_MOST - 1 <= one <= _MOST for one in value
    ):
        raise TraceError(f"line {line}: {key} is no list of whole numbers of 64 bits")
    return value
