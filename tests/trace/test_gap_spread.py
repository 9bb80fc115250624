"""Gaps beside Poisson's: by hand, and against Poisson arrivals that are drawn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.trace.gap_spread import gap_spread, poisson_at_least, stamp_step_ns
from loadgen.trace.trace import Trace
from support.traces import trace_of


def stamped(trace: Trace, resolution_ns: int | None) -> Trace:
    return replace(trace, metadata=replace(trace.metadata, resolution_ns=resolution_ns))


def test_figures_are_those_of_the_gaps() -> None:
    # Gaps 0, 0, 1, 3: mean 1, variance 1.5.
    spread = gap_spread(trace_of([0, 0, 0, 1, 4]))
    assert spread is not None
    assert (spread.gaps, spread.mean_s, spread.longest_s, spread.tie_share) == (4, 1.0, 3.0, 0.5)
    assert spread.cv == pytest.approx(1.5**0.5)
    assert {one.from_s: one.share for one in spread.bins if one.share} == {1.0: 0.25, 2.0: 0.25}


@pytest.mark.parametrize("arrivals_s", [[0.0], [7.0], [0.0, 0.0, 0.0]])
def test_without_a_mean_gap_there_is_no_spread(arrivals_s: list[float]) -> None:
    assert gap_spread(trace_of(arrivals_s)) is None


@pytest.mark.parametrize(
    ("gap_ns", "share"),
    [(1, 1.0), (10**9, np.exp(-1)), (3 * 10**9, np.exp(-3)), (2**62, 0.0)],
)
def test_without_a_coarse_stamp_gaps_of_poisson_are_exponential(gap_ns: int, share: float) -> None:
    assert poisson_at_least([gap_ns], 1e9, 1)[0] == pytest.approx(share, abs=1e-8)


def test_poisson_stamped_to_whole_steps_has_the_ties_of_drawn_arrivals_in_whole_steps() -> None:
    # 5 a second, stamped to 1 s and to 10 ms.
    arrivals_s = np.random.default_rng(1).exponential(0.2, 200_000).cumsum()
    for step_ns in (10**9, 10**7):
        moments_ns = (arrivals_s * 1e9).astype(np.int64) // step_ns * step_ns
        spread = gap_spread(stamped(trace_of((moments_ns - moments_ns[0]) / 1e9), step_ns))
        assert spread is not None
        assert spread.step_ns == step_ns
        assert spread.tie_share == pytest.approx(spread.poisson_tie_share, abs=0.005)
        assert spread.cv == pytest.approx(spread.poisson_cv, rel=0.02)
        for one in spread.bins:
            assert one.share == pytest.approx(one.poisson_share, abs=0.005)


def test_a_resolution_that_the_arrivals_do_not_keep_is_not_believed() -> None:
    # Stamps of whole seconds less durations in ms.
    assert stamp_step_ns(stamped(trace_of([0, 0.998, 3]), 10**9)) == 1
    assert stamp_step_ns(stamped(trace_of([0, 2, 3]), 10**9)) == 10**9
    assert stamp_step_ns(stamped(trace_of([0, 2, 3]), None)) == 1


def test_a_fine_stamp_leaves_poisson_with_variation_one_and_no_ties() -> None:
    spread = gap_spread(trace_of([0, 1, 2]))
    assert spread is not None
    assert spread.cv == 0
    assert spread.poisson_cv == pytest.approx(1)
    assert spread.poisson_tie_share == pytest.approx(0.0, abs=1e-8)


def test_bursts_and_silences_lie_outside_what_poisson_fills() -> None:
    arrivals_s = [10.0 * burst + 0.001 * k for burst in range(50) for k in range(20)]
    spread = gap_spread(trace_of(arrivals_s))
    assert spread is not None
    within_1_to_2_ms = next(one for one in spread.bins if one.from_s <= 0.001 < (one.until_s or np.inf))
    assert within_1_to_2_ms.share > 0.9
    assert within_1_to_2_ms.poisson_share < 0.1
    assert spread.cv > 3


@given(
    st.lists(st.integers(0, 2**61), min_size=2, max_size=30),
    st.sampled_from([None, 1, 1000, 10**9]),
)
def test_any_trace_has_few_bins_that_hold_all_its_gaps(
    moments_ns: list[int], resolution_ns: int | None
) -> None:
    arrival_ns = np.sort(np.array(moments_ns, dtype=np.int64))
    trace = stamped(trace_of([0.0] * len(moments_ns), arrival_ns=arrival_ns - arrival_ns[0]), resolution_ns)
    spread = gap_spread(trace)
    if spread is None:
        assert arrival_ns[0] == arrival_ns[-1]
        return
    assert len(spread.bins) <= 20
    assert spread.tie_share + sum(one.share for one in spread.bins) == pytest.approx(1)
    assert spread.poisson_tie_share + sum(one.poisson_share for one in spread.bins) == pytest.approx(
        1, abs=0.002
    )
    for one, following in zip(spread.bins[:-1], spread.bins[1:], strict=True):
        assert one.until_s == following.from_s
