"""When the server was executing, held against a count of moments."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.report.executing import Executing

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=12)


def floats(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(values, dtype=np.float64)


@given(SPANS, SPANS)
def test_each_second_counts_once_however_many_executed(
    executions: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    executing = Executing(floats([start for start, _ in executions]), floats([s + n for s, n in executions]))
    busy = {second for start, length in executions for second in range(start, start + length)}
    found = executing.seconds_within(floats([start for start, _ in asked]), floats([s + n for s, n in asked]))
    expected = [len(busy & set(range(start, start + length))) for start, length in asked]
    assert found.tolist() == pytest.approx(expected)


def test_nothing_was_executing_where_no_stages_are_told() -> None:
    assert Executing(floats([]), floats([])).seconds_within(floats([1]), floats([2])).tolist() == [0]
