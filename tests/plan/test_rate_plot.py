"""The plot of a plan: each bin at its height, marks where they belong, plain text where colour has no place."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from loadgen.cli.rate_plot import plot_lines, plot_width
from loadgen.plan.summary import RateBins


def bins(counts: list[int], *, bin_s: float = 1.0, highest: list[int] | None = None, **more: Any) -> RateBins:
    labels = more.get("labels", ["baseline"] * len(counts))
    return RateBins(bin_s, counts, highest or counts, labels)


def drawn(shown: RateBins, *, ascii_only: bool = False) -> list[str]:
    """The lines of the plot's field, without heading and time line."""
    return [line.plain[8:] for line in plot_lines(shown, ascii_only=ascii_only)[1:9]]


def column(lines: list[str], number: int) -> str:
    """From the bottom up."""
    return "".join(line.ljust(number + 1)[number] for line in reversed(lines)).rstrip()


def test_each_bin_is_as_high_as_its_rate() -> None:
    lines = drawn(bins([64, 32, 8, 1, 0]))
    assert [column(lines, number) for number in range(5)] == ["████████", "████", "█", "▁", ""]


def test_in_ascii_a_part_of_a_line_has_its_own_sign() -> None:
    lines = drawn(bins([32, 16, 4, 3, 2, 1, 0]), ascii_only=True)
    assert [column(lines, number) for number in range(7)] == ["#" * 8, "####", "#", "|", ":", ".", ""]


def test_the_highest_second_of_a_long_bin_stands_above_it() -> None:
    lines = drawn(bins([80, 80], bin_s=10.0, highest=[8, 32]))
    assert column(lines, 0) == "██"  # 8/s of 32: no second above it
    assert column(lines, 1) == "██     ·"


def test_bins_of_a_second_or_less_have_no_second_of_their_own() -> None:
    assert "·" not in "".join(drawn(bins([1, 2], bin_s=0.5, highest=[50, 60])))


def test_the_axis_tells_the_highest_rate_and_half_of_it() -> None:
    labels = [
        line.plain[:8].strip() for line in plot_lines(bins([400, 30], bin_s=2.0), ascii_only=False)[1:9]
    ]
    assert [label for label in labels if label] == ["400", "200"]


def test_injections_are_marked_below() -> None:
    *_, marks = plot_lines(
        bins([1] * 30, labels=["baseline"] * 3 + ["peak-1"] * 2 + ["recovery-1"] * 25), ascii_only=True
    )
    assert marks.plain == " " * 8 + "   ^^  injected"


@example([0] * 61 + [3906250], 0.00390625, False)
@given(
    st.lists(st.integers(0, 10**7), min_size=20, max_size=72).filter(any), st.floats(1e-3, 1e6), st.booleans()
)
def test_no_plot_is_wider_than_asked(counts: list[int], bin_s: float, ascii_only: bool) -> None:
    labels = ["burst-1"] * len(counts)
    for line in plot_lines(bins(counts, bin_s=bin_s, labels=labels), ascii_only=ascii_only):
        assert len(line.plain) <= max(8 + len(counts), 72)
        assert not ascii_only or line.plain.isascii()


@pytest.mark.parametrize(("columns", "width"), [(80, 72), (200, 72), (60, 52), (10, 20)])
def test_the_width_follows_the_terminal_up_to_80(columns: int, width: int) -> None:
    assert plot_width(columns) == width


@pytest.mark.parametrize(("no_color", "has_colour"), [(False, True), (True, False)])
def test_no_color_leaves_no_colour(no_color: bool, has_colour: bool) -> None:
    written = io.StringIO()
    console = Console(file=written, width=80, force_terminal=True, color_system="standard", no_color=no_color)
    for line in plot_lines(bins([1, 2, 3], labels=["baseline", "peak-1", "baseline"]), ascii_only=False):
        console.print(line)
    assert ("\x1b[1;35m" in written.getvalue()) is has_colour
