"""A history on a terminal: a line of bars for each figure, and its change points in words."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from loadgen.compare import words
from loadgen.compare.history import Group, History, Series

_BARS, _ASCII_BARS = "▁▂▃▄▅▆▇█", ".:-=+*%#"
_MAX_BARS = 50


def render_history(found: History, console: Console) -> None:
    """Print `found`; only ASCII where the console's encoding has no more."""
    bars = _BARS if console.encoding.lower().startswith("utf") else _ASCII_BARS
    for place, group in enumerate(found.groups):
        if place:
            console.print()
        _group(group, console, bars)
    for reason in found.left_out:
        console.print(Text(f"left out: {reason}"))


def _group(group: Group, console: Console, bars: str) -> None:
    versions = list(dict.fromkeys(group.versions))
    console.print(
        Text(f"{group.trace}, schedule {group.schedule_hash}: {len(group.runs)} runs", style="bold")
    )
    console.print(
        Text(f"from {group.started_utc[0]} to {group.started_utc[-1]}; versions {', '.join(versions)}")
    )
    for one in group.series:
        known = [value for value in one.values if value is not None]
        console.print(
            Text(
                f"  {one.cell.name:<18} {_drawn(one.values, bars)}  "
                f"{words.value(one.cell, min(known))} to {words.value(one.cell, max(known))}"
            )
        )
        _points(one, group, console)


def _points(one: Series, group: Group, console: Console) -> None:
    for point in one.points:
        rose = point.after > point.before
        better = one.cell.of.better
        word = "changed" if better == "neither" else ("better" if rose == (better == "higher") else "worse")
        console.print(
            Text(
                f"    {word} from run {point.index + 1} ({group.started_utc[point.index]}, version "
                f"{group.versions[point.index]}): {words.value(one.cell, point.before)} to "
                f"{words.value(one.cell, point.after)}"
            )
        )


def _drawn(values: Sequence[float | None], bars: str) -> str:
    """A bar a run, the last ones where there are many; a blank where there is no value."""
    shown = values[-_MAX_BARS:]
    known = [value for value in shown if value is not None]
    if not known:
        return " " * len(shown)
    low, width = min(known), max(known) - min(known)
    steps = len(bars) - 1
    return "".join(
        " " if value is None else bars[round((value - low) / width * steps) if width else 0]
        for value in shown
    )
