"""A schedule's rate over time as a plot of characters."""

from __future__ import annotations

from rich.text import Text

from loadgen.durations import format_duration
from loadgen.plan.summary import RateBins

_NUM_LINES = 8
_LABEL_CHARS = 7
_INJECTED = "bold magenta"
_FIRST_COLUMN = " " * (_LABEL_CHARS + 1)

# Parts of a full character, the mark of a bin's highest second, and the axes.
_BLOCKS, _ASCII_BLOCKS = " ▁▂▃▄▅▆▇█", " .:|#"
_DOT, _ASCII_DOT = "·", "'"


def plot_width(columns: int) -> int:
    """How many bins fit into a line of so many columns."""
    return max(20, min(columns, 80) - _LABEL_CHARS - 1)


def plot_lines(bins: RateBins, *, ascii_only: bool) -> list[Text]:
    """The mean rate of each bin as bars, its highest second as dots above, injections marked below."""
    blocks, dot = (_ASCII_BLOCKS, _ASCII_DOT) if ascii_only else (_BLOCKS, _DOT)
    means = [count / bins.bin_s for count in bins.counts]
    # A bin shorter than a second has no second of its own.
    has_seconds = bins.bin_s > 1
    highest = max([*means, *(bins.highest_1s if has_seconds else ())])
    injected = [label.startswith(("peak", "burst")) for label in bins.labels]
    steps = len(blocks) - 1
    # A bin with any request shows at least the lowest step.
    heights = [-(-mean * steps * _NUM_LINES // highest) for mean in means]
    tops = [-(-second * _NUM_LINES // highest) - 1 for second in bins.highest_1s]
    lines = [Text(f"requests per second, mean of each {format_duration(bins.bin_s)}", style="bold")]
    if has_seconds:
        lines[0].append(f"; {dot} its highest second")
    for level in reversed(range(_NUM_LINES)):
        line = Text(_label(level, highest))
        for column, height in enumerate(heights):
            part = blocks[int(min(max(height - level * steps, 0), steps))]
            if part == " " and has_seconds and bins.counts[column] and tops[column] == level:
                part = dot
            line.append(part, style=_INJECTED if injected[column] else "")
        line.rstrip()
        lines.append(line)
    lines.append(Text(_FIRST_COLUMN + _time_line(bins.bin_s * len(means), len(means))))
    if any(injected):
        marks = "".join("^" if is_injected else " " for is_injected in injected).rstrip()
        room = _LABEL_CHARS + 1 + len(bins.counts) - len(_FIRST_COLUMN + marks)
        note = "  injected" if room >= len("  injected") else ""
        lines.append(Text(_FIRST_COLUMN + marks + note, style=_INJECTED))
    return lines


def _label(level: int, highest: float) -> str:
    """The rate at the top of a line: of the highest and the middle one, else nothing."""
    if level == _NUM_LINES - 1:
        return f"{_shown(highest):>{_LABEL_CHARS}} "
    if level == _NUM_LINES // 2 - 1:
        return f"{_shown(highest / 2):>{_LABEL_CHARS}} "
    return _FIRST_COLUMN


def _shown(rate_per_s: float) -> str:
    if rate_per_s >= 10**_LABEL_CHARS - 0.5:
        return f"{rate_per_s:.1e}"
    return f"{rate_per_s:.0f}" if rate_per_s >= 100 else f"{rate_per_s:.3g}"


def _time_line(length_s: float, num_columns: int) -> str:
    """Beginning, middle and end of the time, under the columns they stand for."""
    start, middle, end = "0", format_duration(length_s / 2), format_duration(length_s)
    left = num_columns // 2 - len(middle) // 2
    line = start.ljust(left) + middle
    return line.ljust(num_columns - len(end)) + end
