"""Cells that hold counts."""

from __future__ import annotations


def count(cell: str) -> int:
    """A whole number, 0 or more; `12.0` counts as 12. Raises ValueError otherwise."""
    text = cell.strip().removesuffix(".0")
    if not text.isdecimal():
        raise ValueError(f"{cell[:40]!r} is no whole number, 0 or more")
    return int(text)
