"""Options that a file gives as plain values, held against the types of what takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_type_hints

from loadgen.errors import UsageError

# By type: what TOML may have for it, what is said of another value, and an example.
_FORMS: dict[Any, tuple[type | tuple[type, ...], str, str]] = {
    str: (str, "no text", '"30s"'),
    Path: (str, "no text", '"rates.csv"'),
    bool: (bool, "neither true nor false", "true"),
    int: (int, "no whole number", "3"),
    float: ((int, float), "no number", "2.5"),
    list[str]: (list, "no list of texts", '["25%", "75%"]'),
}


def typed(values: Mapping[str, Any], taker: Callable[..., Any], where: str) -> dict[str, Any]:
    """`values` as `taker` (a function or dataclass) takes them. Raises UsageError naming `where` and the key."""
    hints = {name: hint for name, hint in get_type_hints(taker).items() if name != "return"}
    found = {}
    for name, value in values.items():
        if name not in hints:
            raise UsageError(
                f"{where}: there is no option {name}", hint=f"one of: {', '.join(sorted(hints))}"
            )
        kind = next((one for one in get_args(hints[name]) if one is not NoneType), None)
        kind = hints[name] if kind is None or hints[name] in _FORMS else kind
        forms, called, example = _FORMS[kind]
        fits = isinstance(value, forms) and (kind is bool or not isinstance(value, bool))
        if not fits or (isinstance(value, list) and not all(isinstance(one, str) for one in value)):
            raise UsageError(
                f"{where}: {name} is {value!r}, which is {called}", hint=f"for example {name} = {example}"
            )
        found[name] = Path(value) if kind is Path else value
    return found
