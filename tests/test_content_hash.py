"""The hash of a table depends on its values alone."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.content_hash import ContentHash, content_hash

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64()),
        pa.field("name", pa.dictionary(pa.int32(), pa.string())),
        pa.field("blocks", pa.list_(pa.int64())),
        pa.field("flag", pa.bool_()),
    ]
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.none() | st.integers(-5, 5),
            "name": st.none() | st.text(max_size=3),
            "blocks": st.none() | st.lists(st.integers(0, 3), max_size=3),
            "flag": st.none() | st.booleans(),
        }
    ),
    min_size=1,
    max_size=12,
)


@given(ROWS, st.data())
def test_parts_hash_like_the_whole(rows: list[dict[str, object]], data: st.DataObject) -> None:
    whole = pa.Table.from_pylist(rows, SCHEMA)
    cut = data.draw(st.integers(0, len(rows)))
    parts = ContentHash(SCHEMA)
    parts.update(whole.slice(0, cut))
    # A part made anew has its own dictionary and no offset.
    parts.update(pa.Table.from_pylist(rows[cut:], SCHEMA))
    assert parts.hexdigest() == content_hash(whole)


@given(ROWS, ROWS)
def test_other_rows_have_another_hash(one: list[dict[str, object]], other: list[dict[str, object]]) -> None:
    same = content_hash(pa.Table.from_pylist(one, SCHEMA)) == content_hash(
        pa.Table.from_pylist(other, SCHEMA)
    )
    assert same == (one == other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"n": [0, None]}, {"n": [None, 0]}),
        ({"s": ["ab", "c"]}, {"s": ["a", "bc"]}),
        ({"b": [[1], [2]]}, {"b": [[1, 2], []]}),
        ({"b": [None, []]}, {"b": [[], None]}),
        ({"x": [1]}, {"y": [1]}),
    ],
)
def test_values_do_not_run_into_each_other(
    one: dict[str, list[object]], other: dict[str, list[object]]
) -> None:
    assert content_hash(pa.table(one)) != content_hash(pa.table(other))
