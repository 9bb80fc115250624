"""A foreign JSONL file: one object a line, with the line of each error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson

from loadgen.errors import TraceError


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
    """The keys of the first line's object; none if it is no object."""
    first = head.lstrip().split("\n", 1)[0]
    try:
        document = json.loads(first)
    except ValueError:
        return set()
    return set(document) if isinstance(document, dict) else set()


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
