"""A field of a JSON document by its dotted path, where keys may hold dots themselves."""

from __future__ import annotations

from typing import Any


class JsonPath:
    """Takes the value at `sizes.prompt.tokens` out of a document, None where there is none.

    Any of the dots may belong to a key: {"sizes": {"prompt.tokens": 3}} and {"sizes": {"prompt": {"tokens":
    3}}} are both found. A number after a dot is a position in an array. The way that was found last is
    tried first.
    """

    def __init__(self, path: str) -> None:
        self._parts = tuple(path.split("."))
        self._way: tuple[str | int, ...] = (path,)

    def __call__(self, document: Any) -> Any:
        value = document
        try:
            for key in self._way:
                value = value[key]
            return value
        except (KeyError, TypeError, IndexError):
            pass
        way = _find(document, self._parts)
        if way is None:
            return None
        self._way = way
        for key in way:
            document = document[key]
        return document


def _find(document: Any, parts: tuple[str, ...]) -> tuple[str | int, ...] | None:
    if not parts:
        return ()
    if isinstance(document, dict):
        for size in range(len(parts), 0, -1):
            key = ".".join(parts[:size])
            if key in document:
                rest = _find(document[key], parts[size:])
                if rest is not None:
                    return (key, *rest)
    if isinstance(document, list) and parts[0].isdecimal() and int(parts[0]) < len(document):
        rest = _find(document[int(parts[0])], parts[1:])
        if rest is not None:
            return (int(parts[0]), *rest)
    return None
