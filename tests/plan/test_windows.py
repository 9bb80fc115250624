"""Windows cover a schedule without a hole, and each request carries the label of its own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import ScheduleError
from loadgen.plan.injection import Burst, Extras, Peak
from loadgen.plan.planner import plan
from loadgen.plan.schedule import Window
from loadgen.plan.shape import Shape
from loadgen.plan.windows import label_windows, labels_at
from support.traces import trace_of

S = 1_000_000_000

patient = settings(deadline=None, max_examples=40)
arrivals = st.lists(st.floats(0, 120, allow_nan=False), min_size=1, max_size=60).map(sorted)


def injection(label: str, start_s: float, end_s: float) -> Extras:
    return Extras(label, round(start_s * S), round(end_s * S), np.array([], dtype=np.int64))


def told(windows: tuple[Window, ...]) -> list[tuple[str, float, float]]:
    return [(window.label, window.start_ns / S, window.end_ns / S) for window in windows]


@pytest.mark.parametrize(
    ("injected", "expected"),
    [
        ([], [("baseline", 0, 100)]),
        (
            [injection("peak-1", 50, 51)],
            [("baseline", 0, 50), ("peak-1", 50, 51), ("recovery-1", 51, 61), ("baseline", 61, 100)],
        ),
        # Ten widths where these are more than 10 s.
        (
            [injection("peak-1", 10, 12)],
            [("baseline", 0, 10), ("peak-1", 10, 12), ("recovery-1", 12, 32), ("baseline", 32, 100)],
        ),
        # The next injection ends a recovery.
        (
            [injection("burst-1", 20, 20.5), injection("peak-1", 0, 1), injection("peak-2", 5, 6)],
            [
                ("peak-1", 0, 1),
                ("recovery-1", 1, 5),
                ("peak-2", 5, 6),
                ("recovery-2", 6, 16),
                ("baseline", 16, 20),
                ("burst-1", 20, 20.5),
                ("recovery-3", 20.5, 30.5),
                ("baseline", 30.5, 100),
            ],
        ),
        # Side by side, with nothing between; and to the very end.
        (
            [injection("peak-1", 0, 50), injection("peak-2", 50, 100)],
            [("peak-1", 0, 50), ("peak-2", 50, 100)],
        ),
        ([injection("peak-1", 95, 96)], [("baseline", 0, 95), ("peak-1", 95, 96), ("recovery-1", 96, 100)]),
    ],
)
def test_a_recovery_follows_each_injection_and_the_rest_is_baseline(
    injected: list[Extras], expected: list[tuple[str, float, float]]
) -> None:
    assert told(label_windows(injected, 100 * S)) == expected


def test_injections_that_overlap_are_refused() -> None:
    with pytest.raises(ScheduleError, match=r"burst-1 at 10\.50 s begins within peak-1"):
        label_windows([injection("peak-1", 10, 11), injection("burst-1", 10.5, 10.6)], 100 * S)


def test_a_window_holds_its_first_nanosecond_and_not_its_end() -> None:
    windows = label_windows([injection("peak-1", 50, 51)], 100 * S)
    moments = np.array([0, 50 * S - 1, 50 * S, 51 * S - 1, 51 * S, 61 * S, 100 * S - 1])
    assert labels_at(windows, moments).to_pylist() == [
        *("baseline", "baseline", "peak-1", "peak-1", "recovery-1", "baseline", "baseline")
    ]


@patient
@given(arrivals, st.integers(1, 3), st.integers(0, 3))
def test_windows_follow_each_other_and_rows_lie_in_theirs(
    moments: list[float], count: int, seed: int
) -> None:
    try:
        schedule = plan(
            trace_of(moments), Shape(peak=Peak(0.5, 3.0, count), burst=Burst(5, every_s=9.0), seed=seed)
        )
    except ScheduleError:
        return
    windows = schedule.windows
    assert windows[0].start_ns == 0
    assert all(before.end_ns == after.start_ns for before, after in itertools.pairwise(windows))
    assert schedule.end_ns > schedule.planned_ns[-1]
    labels = schedule.table.column("window").to_pylist()
    for moment, label in zip(schedule.planned_ns, labels, strict=True):
        (home,) = [window for window in windows if window.start_ns <= moment < window.end_ns]
        assert home.label == label
