"""Traces like a given one: bursts stay bursts, what is even stays even, and nothing is made up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import TraceError
from loadgen.trace.likeness import dispersion
from loadgen.trace.synthetic import draw_like
from loadgen.trace.trace import Trace
from support.traces import trace_of

SECOND = 10**9


def numbered(arrivals_s: Sequence[float] | npt.NDArray[np.float64], **columns: Sequence[Any]) -> Trace:
    """A trace whose rows can be told by their lengths: row i has i tokens in and 2 i out."""
    count = len(arrivals_s)
    rows = {"input_tokens": list(range(count)), "output_tokens": [2 * row for row in range(count)]}
    return trace_of(list(arrivals_s), **rows, **columns)


def rows_of(synthetic: Trace) -> list[int]:
    """The recorded row of each drawn one."""
    return list(synthetic.table.column("input_tokens").to_pylist())


def poisson(count: int, rate_per_s: float, seed: int) -> npt.NDArray[np.float64]:
    return np.cumsum(np.random.default_rng(seed).exponential(1 / rate_per_s, count))


def bursts(count: int, size: int, every_s: float, seed: int) -> npt.NDArray[np.float64]:
    """Bursts of about `size` within 100 ms, at Poisson moments."""
    rng = np.random.default_rng(seed)
    starts = np.cumsum(rng.exponential(every_s, count))
    within = [start + rng.uniform(0, 0.1, rng.poisson(size) + 1) for start in starts]
    return np.sort(np.concatenate(within))


def gap_cv(trace: Trace) -> float:
    gaps = np.diff(trace.arrival_ns)
    return float(gaps.std() / gaps.mean())


def test_the_same_seed_draws_the_same_and_another_one_another() -> None:
    trace = numbered(poisson(300, 5, seed=1))
    assert draw_like(trace, seed=3).trace_id == draw_like(trace, seed=3).trace_id
    assert draw_like(trace, seed=3).trace_id != draw_like(trace, seed=4).trace_id


@pytest.mark.parametrize("seed", range(4))
def test_poisson_stays_like_poisson(seed: int) -> None:
    synthetic = draw_like(numbered(poisson(4000, 10, seed)), seed=seed)
    assert 3400 < synthetic.num_rows < 4600
    assert 0.9 < gap_cv(synthetic) < 1.1
    for width_s in (1, 10):
        found = dispersion(synthetic.arrival_ns, width_s * SECOND)
        assert found is not None
        assert 0.4 < found < 2.5


@pytest.mark.parametrize("seed", range(4))
def test_bursts_stay_bursts_on_every_scale(seed: int) -> None:
    trace = numbered(bursts(300, 20, every_s=4.0, seed=seed))
    synthetic = draw_like(trace, seed=seed)
    assert synthetic.num_rows == pytest.approx(trace.num_rows, rel=0.35)
    assert gap_cv(synthetic) == pytest.approx(gap_cv(trace), rel=0.25)
    for width_s in (1, 10):
        before, after = (dispersion(one.arrival_ns, width_s * SECOND) for one in (trace, synthetic))
        assert before is not None
        assert after is not None
        # Gaps drawn one by one would keep the variation of gaps and lose a burst of 20 in 100 ms altogether.
        assert before > 10
        assert 0.6 * before < after < 1.6 * before


def test_the_mean_rate_is_without_bias() -> None:
    trace = numbered(bursts(100, 20, every_s=4.0, seed=7))
    rates = [draw_like(trace, seed=seed).num_rows / trace.num_rows for seed in range(60)]
    # The mean of 60 draws, each within some 15 %.
    assert np.mean(rates) == pytest.approx(1, abs=0.08)


def test_every_request_is_drawn_as_often_as_any_other() -> None:
    trace = numbered(poisson(200, 5, seed=2))
    drawn = np.bincount(
        np.concatenate([rows_of(draw_like(trace, seed=seed)) for seed in range(300)]), minlength=200
    )
    # A piece holds some eight. The first and the last ones come as often as those in the middle.
    places = [drawn[start:end].mean() for start, end in ((0, 3), (3, 9), (90, 110), (191, 197), (199, 200))]
    assert places == pytest.approx([300] * 5, rel=0.3)


def test_the_rate_curve_stays_in_its_place() -> None:
    slow, fast = poisson(500, 1, seed=1), poisson(5000, 10, seed=2)
    trace = numbered(np.concatenate([slow, slow[-1] + fast]))
    for seed in range(3):
        arrivals = draw_like(trace, seed=seed).arrival_ns
        half = arrivals[-1] // 2
        assert np.count_nonzero(arrivals > 1.3 * half) > 4 * np.count_nonzero(arrivals < 0.7 * half)


def test_a_shorter_trace_runs_through_the_whole_curve() -> None:
    slow, fast = poisson(500, 1, seed=1), poisson(5000, 10, seed=2)
    synthetic = draw_like(numbered(np.concatenate([slow, slow[-1] + fast])), seed=0, duration_s=100)
    assert synthetic.arrival_ns[-1] < 100 * SECOND
    early = np.count_nonzero(synthetic.arrival_ns < 35 * SECOND)
    late = np.count_nonzero(synthetic.arrival_ns > 65 * SECOND)
    assert late > 4 * early


def test_a_longer_trace_has_the_same_rate() -> None:
    trace = numbered(poisson(300, 5, seed=3))
    synthetic = draw_like(trace, seed=1, duration_s=5 * trace.span_s)
    assert 1300 < synthetic.num_rows < 1700
    assert synthetic.span_s == pytest.approx(5 * trace.span_s, rel=0.02)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 10**13), min_size=2, max_size=60),
    st.integers(0, 5),
    st.none() | st.floats(1e-3, 1e3),
)
def test_only_recorded_requests_and_whole_recorded_gaps_are_drawn(
    gaps_ns: list[int], seed: int, duration_s: float | None
) -> None:
    if not any(gaps_ns):
        gaps_ns[0] = 1
    arrivals_ns = np.concatenate([[0], np.cumsum(gaps_ns)])
    trace = numbered(arrivals_ns / 1e9)
    recorded = np.diff(trace.arrival_ns)
    if duration_s is not None:
        # Any scale from a thousandth of the trace to a thousand gaps.
        duration_s = min(duration_s, 20.0) * trace.span_s
    synthetic = draw_like(trace, seed=seed, duration_s=duration_s)
    rows = np.array(rows_of(synthetic))
    gaps = np.diff(synthetic.arrival_ns)
    assert synthetic.arrival_ns[0] == 0
    assert synthetic.table.column("output_tokens").to_pylist() == [2 * row for row in rows]
    is_last = rows[:-1] == trace.num_rows - 1
    assert (gaps[~is_last] == recorded[rows[:-1][~is_last]]).all()
    assert np.isin(gaps[is_last], recorded).all()


def test_ties_stay_together() -> None:
    arrivals = np.repeat(np.arange(100) * 3.0, 10)
    synthetic = draw_like(numbered(arrivals), seed=1)
    _, counts = np.unique(synthetic.arrival_ns, return_counts=True)
    # The last group's gap is drawn from the others, and nine of ten of those are ties.
    assert np.mean(counts % 10 == 0) > 0.9
    assert set((synthetic.arrival_ns % (3 * SECOND)).tolist()) == {0}


def test_a_silence_longer_than_a_piece_is_kept_whole() -> None:
    arrivals = np.concatenate([np.arange(100) * 0.1, 500 + np.arange(100) * 0.1])
    synthetic = draw_like(numbered(arrivals), seed=2, duration_s=5000)
    gaps = np.diff(synthetic.arrival_ns) / SECOND
    assert set(np.round(gaps, 6)) == {0.1, 490.1}


def test_a_piece_out_of_silence_is_as_likely_a_burst_as_a_single_request() -> None:
    # Pieces of 1 s. The first is drawn from 1.5 to 10.5 s, where there is nothing; behind that lie a single
    # request on one side, and a burst of 30 on the other.
    trace = numbered([0.0, *(12 + row * 1e-6 for row in range(30)), 311.0])
    first_rows = [rows_of(draw_like(trace, seed=seed, duration_s=24))[0] for seed in range(400)]
    assert set(first_rows) <= set(range(31))
    # Not thirty times likelier.
    assert 0.4 < np.mean([row > 0 for row in first_rows]) < 0.6


@pytest.mark.timeout(20)
def test_a_moment_of_a_long_trace_is_drawn_in_no_time() -> None:
    trace = numbered([hour * 3600.0 for hour in range(1000)])
    synthetic = draw_like(trace, seed=1, duration_s=1e-3)
    assert synthetic.arrival_ns.tolist() == [0]


def test_one_request_alone_is_drawn() -> None:
    synthetic = draw_like(numbered([0.0]), seed=1)
    assert (synthetic.arrival_ns.tolist(), rows_of(synthetic)) == ([0], [0])


def test_two_requests_are_drawn_with_their_gap() -> None:
    drawn = [draw_like(numbered([0.0, 2.0]), seed=seed, duration_s=20) for seed in range(5)]
    for synthetic in drawn:
        assert synthetic.arrival_ns.tolist() == [second * SECOND for second in range(0, 20, 2)]
    assert {row for synthetic in drawn for row in rows_of(synthetic)} == {0, 1}


def test_as_many_requests_as_came_at_one_instant_are_drawn() -> None:
    synthetic = draw_like(numbered([0.0] * 50), seed=1)
    assert synthetic.arrival_ns.tolist() == [0] * 50
    assert 20 < len(set(rows_of(synthetic))) < 50


@pytest.mark.parametrize(
    ("arrivals", "duration_s", "message"),
    [
        ([0.0, 0.0], 5, "no rate to draw from"),
        ([0.0], 5, "no rate to draw from"),
        ([0.0, 1.0], 0, "duration is 0 s"),
        ([0.0, 1.0], 1e9, "requests would be drawn"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arrivals: list[float], duration_s: float, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        draw_like(numbered(arrivals), seed=0, duration_s=duration_s)


def test_measured_times_and_outcomes_are_left_out_and_said_to_be() -> None:
    columns: dict[str, Any] = {"duration_ns": [5] * 20, "ttft_ns": [1] * 20, "model": ["a", "b"] * 10}
    synthetic = draw_like(numbered(np.arange(20.0), **columns), seed=0)
    assert synthetic.table.column("duration_ns").null_count == synthetic.num_rows
    assert any("duration_ns, ttft_ns" in warning for warning in synthetic.metadata.warnings)
    models = synthetic.table.column("model").to_pylist()
    assert models == ["ab"[row % 2] for row in rows_of(synthetic)]


def test_turns_of_a_session_keep_their_order() -> None:
    sessions = [row // 4 if row % 8 else None for row in range(200)]
    trace = numbered(poisson(200, 2, seed=5), session=sessions)
    synthetic = draw_like(trace, seed=3)
    turns: dict[int, list[int]] = defaultdict(list)
    for row, session in zip(rows_of(synthetic), synthetic.table.column("session").to_pylist(), strict=True):
        assert (session is None) == (sessions[row] is None)
        if session is not None:
            turns[session].append(row)
    assert list(turns) == list(range(len(turns)))
    for rows in turns.values():
        assert rows == sorted(set(rows))
        assert len({sessions[row] for row in rows}) == 1
    assert any(len(rows) > 2 for rows in turns.values())


def test_blocks_of_one_request_are_new_when_it_is_drawn_again_and_shared_ones_are_not() -> None:
    blocks = [[10**18, row] if row % 10 else None for row in range(1, 301)]
    trace = numbered(poisson(300, 5, seed=6), prefix_blocks=blocks)
    synthetic = draw_like(trace, seed=2)
    drawn = synthetic.table.column("prefix_blocks").to_pylist()
    rows = rows_of(synthetic)
    assert len(set(rows)) < len(rows)
    assert [ids is None for ids in drawn] == [blocks[row] is None for row in rows]
    known = [ids for ids in drawn if ids is not None]
    # The system prompt is one for all; what follows it is never seen twice.
    assert len({ids[0] for ids in known}) == 1
    assert len({ids[1] for ids in known}) == len(known)


def test_blocks_are_shared_by_the_turns_of_one_drawn_session() -> None:
    sessions = [row // 2 for row in range(200)]
    blocks = [[row // 2] for row in range(200)]
    arrivals = np.repeat(np.arange(100) * 5.0, 2)
    synthetic = draw_like(numbered(arrivals, session=sessions, prefix_blocks=blocks), seed=1)
    found = list(
        zip(*(synthetic.table.column(name).to_pylist() for name in ("session", "prefix_blocks")), strict=True)
    )
    assert len({(session, tuple(ids)) for session, ids in found}) == len({session for session, _ in found})
    assert len({tuple(ids) for _, ids in found}) == len({session for session, _ in found})
