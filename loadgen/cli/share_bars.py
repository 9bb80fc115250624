"""Shares as bars of characters, in columns beside each other that have the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

_MAX_COLUMNS = 80
_SHARE_CHARS = 7  # `100.0% `
_GAP = "  "
# Parts of a full character, from the left.
_BLOCKS, _ASCII_BLOCKS = " ▏▎▍▌▋▊▉█", " #"


@dataclass(frozen=True, slots=True)
class ShareColumn:
    """shares: 0 to 1, one a row."""

    heading: str
    shares: tuple[float, ...]


def share_lines(
    labels: Sequence[str], columns: Sequence[ShareColumn], width: int, *, ascii_only: bool
) -> list[Text]:
    """A line of headings, then a line a label: in each column its share and a bar, all on one scale.

    width: characters of a line, of which 80 at most are used.
    """
    label_chars = max(map(len, labels))
    room = min(width, _MAX_COLUMNS) - label_chars
    bar_chars = max(4, room // len(columns) - len(_GAP) - _SHARE_CHARS)
    highest = max(share for column in columns for share in column.shares) or 1.0
    heading = Text(" " * label_chars, style="dim")
    for column in columns:
        # A heading stands over its bars.
        heading.append(_GAP + column.heading[: _SHARE_CHARS + bar_chars].ljust(_SHARE_CHARS + bar_chars))
    lines = [heading]
    for row, label in enumerate(labels):
        line = Text(label.rjust(label_chars))
        for place, column in enumerate(columns):
            share = column.shares[row]
            bar = _bar(share / highest, bar_chars, _ASCII_BLOCKS if ascii_only else _BLOCKS)
            line.append(f"{_GAP}{share:>{_SHARE_CHARS - 1}.1%} ")
            line.append(bar.ljust(bar_chars), style=("cyan", "magenta")[place % 2])
        lines.append(line)
    for line in lines:
        line.rstrip()
    return lines


def _bar(part: float, num_chars: int, blocks: str) -> str:
    """`part` of `num_chars`, rounded up: what is there at all can be seen."""
    steps = len(blocks) - 1
    # A hair less, so that no rest in the last digit makes a step of its own.
    filled = max(1, math.ceil(part * num_chars * steps - 1e-9)) if part > 0 else 0
    whole, rest = divmod(filled, steps)
    return blocks[-1] * whole + (blocks[rest] if rest else "")
