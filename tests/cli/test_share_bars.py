"""Bars of shares: one scale for all columns, plain in ASCII, never wider than asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.cli.share_bars import ShareColumn, share_lines


def test_bars_of_all_columns_have_one_scale() -> None:
    columns = [ShareColumn("a", (0.5, 0.25, 0.0)), ShareColumn("b", (0.125, 1e-9, 0.0))]
    lines = [line.plain for line in share_lines(["x", "yy", "z"], columns, 36, ascii_only=False)]
    assert lines == [
        "    a                b",
        " x   50.0% ████████   12.5% ██",
        "yy   25.0% ████        0.0% ▏",
        " z    0.0%             0.0%",
    ]


def test_ascii_has_whole_characters_only() -> None:
    lines = share_lines(["x"], [ShareColumn("a", (1.0,)), ShareColumn("b", (0.01,))], 36, ascii_only=True)
    assert lines[1].plain == "x  100.0% ########    1.0% #"


@pytest.mark.parametrize("width", [40, 80, 200])
@given(
    labels=st.lists(st.text("abc 019", min_size=1, max_size=18), min_size=1, max_size=5),
    share=st.floats(0, 1),
    heading=st.text("abc", max_size=60),
)
def test_no_line_is_wider_than_asked(width: int, labels: list[str], share: float, heading: str) -> None:
    columns = [ShareColumn(heading, (share,) * len(labels))] * 2
    for line in share_lines(labels, columns, width, ascii_only=False):
        assert len(line.plain) <= min(width, 80) or width < 40 + max(map(len, labels))
