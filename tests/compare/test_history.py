"""Series over versions, and the points at which they moved."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from loadgen.compare.change_points import change_points
from loadgen.compare.history import history, read_history
from loadgen.compare.laws import Floats
from loadgen.errors import RunError
from support import compared_runs as sides


def found(values: Floats) -> list[int]:
    return [point.index for point in change_points(values, np.random.default_rng(0))]


def levels(*parts: tuple[float, int], spread: float = 0.01) -> Floats:
    rng = np.random.default_rng(1)
    return np.concatenate([level + spread * rng.standard_normal(count) for level, count in parts])


def test_a_step_is_found_where_it_is() -> None:
    (point,) = change_points(levels((1.0, 8), (1.2, 8)), np.random.default_rng(0))
    assert point.index == 8
    assert (point.before, point.after) == pytest.approx((1.0, 1.2), abs=0.02)


def test_two_steps_are_found() -> None:
    assert found(levels((1.0, 8), (1.2, 8), (0.9, 8))) == [8, 16]


def test_a_step_and_its_return_are_found() -> None:
    assert found(levels((1.0, 10), (1.3, 10), (1.0, 10))) == [10, 20]


@pytest.mark.parametrize(
    "values",
    [np.ones(20), np.arange(5.0), np.array([]), levels((1.0, 10), (3.0, 1), (1.0, 10))],
    ids=["constant", "too short", "empty", "one odd run"],
)
def test_nothing_is_found_where_no_level_changed(values: Floats) -> None:
    assert found(values) == []


def test_noise_is_seldom_called_a_change() -> None:
    rng = np.random.default_rng(2)
    count = sum(bool(change_points(rng.standard_normal(20), rng)) for _ in range(100))
    assert count <= 5


def test_a_folder_becomes_series_with_the_run_at_which_they_moved(tmp_path: Path) -> None:
    for minute, latency_s in enumerate(levels((0.1, 6), (0.15, 6), spread=0.001)):
        target = {
            "url": "http://h",
            "model": "m",
            "dialect": "chat",
            "facts": {"version": f"1.{minute // 6}"},
        }
        sides.run(tmp_path, sides.rows(float(latency_s)), minute=minute, target=target)
    sides.run(tmp_path, sides.rows(0.1), minute=99, status="interrupted")
    sides.run(tmp_path, sides.rows(0.1), minute=100, schedule_hash="other")
    seen = history(read_history(tmp_path))
    assert [len(group.runs) for group in seen.groups] == [12, 1]
    assert seen.groups[0].versions == ("1.0",) * 6 + ("1.1",) * 6
    p50 = next(one for one in seen.groups[0].series if one.cell.text == "latency p50")
    assert [point.index for point in p50.points] == [6]
    assert p50.points[0].after / p50.points[0].before == pytest.approx(1.5, abs=0.05)
    assert "interrupted" in seen.left_out[0]
    json.dumps(seen.as_json(), allow_nan=False)


def test_an_empty_folder_has_no_history(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="holds no run"):
        read_history(tmp_path)
