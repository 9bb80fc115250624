"""JSON lines read in blocks give what they give line by line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.record.json_columns import JsonColumnReader, JsonColumns
from loadgen.record.line_batch import LineBatch

SCALAR = st.sampled_from([None, 0, 7, -1, 1.5, "x", "", "7", True, 1792889998.201389])
VALUE = SCALAR | st.lists(SCALAR, max_size=2) | st.dictionaries(st.sampled_from("bc"), SCALAR, max_size=2)
DOCUMENT = st.dictionaries(st.sampled_from(["a", "b", "a.b", "t", "other", "häh"]), VALUE, max_size=5)
BROKEN = st.sampled_from(["", "{", '{"a": 1', "[1]", "1", "null", "\x1b[31mred\x1b[0m", '{"t": NaN}', "  "])
LINES = st.lists(
    DOCUMENT.map(lambda document: json.dumps(document, ensure_ascii=False)) | BROKEN, max_size=12
)
PATHS = ("a", "a.b", "t", "häh")


def read_lines(text: str, *, in_blocks: bool, **options: Any) -> JsonColumns:
    reader = JsonColumnReader(PATHS, exact=("t",), whole=("häh",), **options)
    if not in_blocks:
        reader._is_prepared = True
    return reader.read(LineBatch("log", 0, 1, text.encode()))


@pytest.mark.parametrize("required", [(), ("t",), ("a", "other")])
@given(LINES, st.sampled_from(["\n", "\r\n"]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_both_ways_read_the_same(required: tuple[str, ...], lines: list[str], end: str, is_cut: bool) -> None:
    text = end.join(lines) + ("" if is_cut else end)
    blocks = read_lines(text, in_blocks=True, required=required)
    singly = read_lines(text, in_blocks=False, required=required)
    assert list(blocks.numbers) == list(singly.numbers)
    assert blocks.faults == singly.faults
    for path in PATHS:
        # A path through both kinds of keys at once is read by the kind that the first lines show.
        if path != "a.b" or not any('"a.b"' in line for line in lines):
            assert same(blocks.values[path], singly.values[path]), path


def same(one: list[Any], other: list[Any]) -> bool:
    """Whether the values are equal and of one type; a fraction may come as text, whose digits are the same.

    An object where a value is asked for is none, in whatever shape it comes.
    """
    scalars = (str, int, float, bool, type(None))
    return all(
        (type(left), left) == (type(right), right)
        or str(left) == str(right)
        or not (isinstance(left, scalars) or isinstance(right, scalars))
        for left, right in zip(one, other, strict=True)
    )


def test_a_long_fraction_keeps_its_digits() -> None:
    text = '{"t": 1792889998.201389540}\n{"t": 1792889998}\n{"t": "x"}\n'
    assert read_lines(text, in_blocks=True).values["t"] == ["1792889998.201389540", 1792889998, "x"]


@pytest.mark.parametrize(
    ("document", "expected"),
    [({"a": {"b": 3}}, 3), ({"a.b": 4}, 4), ({"a": 5}, None), ({"a": None}, None), ({"a": {"c": 1}}, None)],
)
def test_a_dot_may_be_part_of_a_key(document: dict[str, Any], expected: int | None) -> None:
    assert read_lines(json.dumps(document) + "\n", in_blocks=True).values["a.b"] == [expected]


def test_a_bad_line_in_a_large_block_costs_no_others() -> None:
    good = json.dumps({"a": 1, "t": 5, "text": "x" * 50})
    lines = [good] * 5000
    lines[1234] = "Traceback (most recent call last):"
    columns = read_lines("\n".join(lines), in_blocks=True)
    assert [number for number, _ in columns.faults] == [1234]
    assert len(columns.numbers) == 4999
    assert set(columns.values["a"]) == {1}


def test_a_position_in_an_array_is_read() -> None:
    reader = JsonColumnReader(["sizes.1"])
    assert reader.read(LineBatch("log", 0, 1, b'{"sizes": [3, 4]}\n')).values["sizes.1"] == [4]
