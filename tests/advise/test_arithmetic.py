"""The arithmetic of advice, on numbers small enough to check by hand."""

from __future__ import annotations

import numpy as np
import pytest

from loadgen.advise.arithmetic import fills, little, rates_of

S = 10**9


def test_the_busy_rate_is_that_of_the_second_a_request_finds_itself_in() -> None:
    # 8 requests in one second, one in another, silence in the other eight.
    planned = np.asarray([0] * 8 + [5 * S], dtype=np.int64)
    rates = rates_of(planned, 10 * S)
    assert rates.mean == pytest.approx(0.9)
    assert rates.busy == pytest.approx((8 * 8 + 1) / 9)
    assert rates.peak == 8


def test_even_arrivals_are_as_busy_as_the_mean() -> None:
    planned = np.arange(0, 10 * S, S // 4, dtype=np.int64)
    rates = rates_of(planned, 10 * S)
    assert rates.mean == rates.busy == rates.peak == 4


def test_requests_within_an_instant_have_no_mean_rate() -> None:
    assert rates_of(np.zeros(3, dtype=np.int64), 1000).mean is None


def test_a_batch_of_8_at_20_a_second_takes_400_ms_which_half_of_800_ms_just_allows() -> None:
    by_size = {fill.max_batch: fill for fill in fills(20.0, 0.8)}
    assert by_size[8].wait_s == pytest.approx(0.4)
    assert by_size[8].fits
    assert not by_size[16].fits


def test_littles_law_says_how_many_execute_and_how_many_may_wait() -> None:
    law = little(rate=20.0, service_s=0.6, capacity=40.0, budget_s=0.8, max_batch=8)
    assert law.in_execution == pytest.approx(12)
    assert law.batches == 2
    assert law.high_water == 8  # 40/s x 0.2 s


def test_a_service_longer_than_the_budget_leaves_no_time_to_wait() -> None:
    assert little(1.0, 2.0, 10.0, 1.0, 8).high_water == 0
    assert little(1.0, 0.99, 10.0, 1.0, 8).high_water == 1
