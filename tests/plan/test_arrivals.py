"""Each form of arrivals has the count and length of the recorded ones, and its own unevenness."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import ScheduleError
from loadgen.plan.arrivals import KINDS, Arrivals
from loadgen.plan.injection import Peak
from loadgen.plan.moments import Moments
from loadgen.plan.planner import plan
from loadgen.plan.shape import Shape
from loadgen.trace.statistics import peak_within
from support.traces import trace_of

S = 1_000_000_000

patient = settings(deadline=None, max_examples=40)


def moments_of(kind: str, count: int, length_s: float, burstiness: float | None = None) -> Moments:
    recorded_ns = np.zeros(count, dtype=np.int64)
    rng = np.random.default_rng(1)
    return Arrivals(kind, burstiness).moments(recorded_ns, round(length_s * S), rng)


def gap_variation(moments_ns: Moments) -> float:
    gaps_ns = np.diff(moments_ns)
    return float(gaps_ns.std() / gaps_ns.mean())


@patient
@given(
    st.sampled_from([kind for kind in KINDS if kind != "trace"]),
    st.integers(1, 300),
    st.integers(1, 10**13),
    st.integers(0, 9),
)
def test_every_form_keeps_count_and_length_and_begins_at_zero(
    kind: str, count: int, length_ns: int, seed: int
) -> None:
    recorded_ns = np.zeros(count, dtype=np.int64)
    moments_ns = Arrivals(kind).moments(recorded_ns, length_ns, np.random.default_rng(seed))
    assert moments_ns.dtype == np.int64
    assert len(moments_ns) == count
    assert moments_ns[0] == 0
    assert moments_ns[-1] < length_ns
    assert (np.diff(moments_ns) >= 0).all()


def test_trace_keeps_the_recorded_moments() -> None:
    recorded = trace_of([0, 0.5, 0.5, 7])
    assert list(plan(recorded, Shape()).planned_ns) == list(recorded.arrival_ns)


def test_uniform_gaps_differ_by_a_nanosecond_at_most() -> None:
    assert list(moments_of("uniform", 4, 10)) == [0, 2.5 * S, 5 * S, 7.5 * S]
    assert set(np.diff(moments_of("uniform", 700, 10)).tolist()) <= {14285714, 14285715}


@pytest.mark.parametrize(
    ("kind", "burstiness", "expected"),
    [
        ("poisson", None, 1.0),
        ("gamma", None, 2.0),
        ("gamma", 1.0, 1.0),
        ("gamma", 0.0625, 4.0),
        ("gamma", 4.0, 0.5),
    ],
)
def test_the_variation_of_gaps_is_what_the_form_promises(
    kind: str, burstiness: float | None, expected: float
) -> None:
    assert gap_variation(moments_of(kind, 50_000, 5_000, burstiness)) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(("rate_per_s", "size"), [(1, 10), (5, 10), (40, 40), (200, 200)])
def test_bursty_arrivals_come_within_30_ms_and_then_there_is_silence(rate_per_s: int, size: int) -> None:
    moments_ns = moments_of("bursty", 300 * rate_per_s, 300)
    gaps_ns = np.diff(moments_ns)
    # Groups may fall together by chance, so no fewer than so many are as they should be.
    assert peak_within(moments_ns, 30_000_000) >= size
    assert (gaps_ns < 30_000_000).mean() >= 1 - 1.5 / size
    assert np.sort(gaps_ns)[-len(moments_ns) // size :].sum() > 0.9 * 300 * S


def test_forms_are_ever_less_even() -> None:
    seconds = {kind: moments_of(kind, 3_000, 300) // S for kind in ("uniform", "poisson", "gamma", "bursty")}
    variances = [np.bincount(places, minlength=300).var() for places in seconds.values()]
    assert variances == sorted(variances)


def test_rows_keep_their_order_and_the_rate_its_mean() -> None:
    recorded = trace_of([0, 1, 1.1, 1.2, 30], input_tokens=[1, 2, 3, 4, 5])
    for kind in KINDS:
        schedule = plan(recorded, Shape(arrivals=Arrivals(kind)))
        assert schedule.table.column("input_tokens").to_pylist() == [1, 2, 3, 4, 5]
        assert schedule.end_ns == 30 * S + 1


def test_the_seed_decides_what_is_drawn() -> None:
    recorded = trace_of([float(second) for second in range(60)])
    shapes = [Shape(arrivals=Arrivals("poisson"), seed=seed) for seed in (1, 1, 2)]
    first, again, other = (plan(recorded, shape).schedule_hash for shape in shapes)
    assert first == again != other


def test_a_peak_is_measured_on_the_form_that_is_sent() -> None:
    recorded = trace_of([0.0] * 30 + [float(second) for second in range(1, 31)])
    shape = Shape(arrivals=Arrivals("uniform"), peak=Peak(factor=2))
    schedule = plan(recorded, shape)
    (peak,) = [window for window in schedule.windows if window.label == "peak-1"]
    inside = (schedule.planned_ns >= peak.start_ns) & (schedule.planned_ns < peak.end_ns)
    assert inside.sum() == 4  # 60 in 30 s make 2 a second


@pytest.mark.parametrize(
    ("kind", "burstiness", "message"),
    [
        ("even", None, "--arrivals is 'even'"),
        ("gamma", 0.0, "--burstiness is 0"),
        ("gamma", -1.0, "--burstiness"),
        ("gamma", float("nan"), "--burstiness"),
        ("poisson", 1.0, "--burstiness is given with --arrivals poisson"),
    ],
)
def test_a_form_that_makes_no_sense_is_refused(kind: str, burstiness: float | None, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        Arrivals(kind, burstiness)
