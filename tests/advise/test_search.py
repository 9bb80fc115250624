"""Search: the best by simulation on traces whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from loadgen.advise.search import Bench, Budget, Outlook, alone_s, certainty, choose, search
from loadgen.advise.setting import Setting, candidates
from loadgen.plan.planner import plan
from loadgen.plan.prompts import PromptMaker
from loadgen.plan.schedule import Schedule
from loadgen.plan.shape import Shape
from loadgen.simulate.cost_model import CostModel
from support.traces import trace_of

COST = CostModel(
    prefill_us=2_000,
    prefill_token_us=100,
    decode_us=((1, 8_000), (8, 10_000), (16, 14_000)),
    receive_us=0,
    reply_us=0,
)
STATIC = ("serial", "fixed-window", "dynamic")


def schedule_of(rate: float, *, length_s: float = 20.0, seed: int = 0, tokens: int = 20) -> Schedule:
    rng = np.random.default_rng(seed)
    count = round(rate * length_s)
    arrivals: list[float] = np.sort(rng.uniform(0, length_s, count)).tolist()
    lengths = rng.integers(2, 2 * tokens, count).tolist()
    return plan(trace_of(arrivals, output_tokens=lengths, input_tokens=[8] * count), Shape())


def bench(rate: float, **settings: float) -> Bench:
    return Bench(schedule_of(rate, **settings), COST, PromptMaker(chars_per_token=1))  # type: ignore[arg-type]


def test_joining_at_once_wins_where_all_policies_may_be_used() -> None:
    budget = Budget(1.0)
    tried = candidates(1.0, max_batch=16, policies=(*STATIC, "continuous"), longest_prompt=8)
    best = search(bench(15.0), tried, budget)[0]
    assert best.setting.policy == "continuous"
    assert best.holds(budget)


def test_a_single_request_is_not_kept_waiting_where_few_come() -> None:
    budget = Budget(2.0)
    tried = [Setting("dynamic", 8, wait_ms=wait) for wait in (0.0, 250.0, 1000.0)]
    assert search(bench(0.5), tried, budget)[0].setting.wait_ms == 0


def test_what_does_not_hold_comes_after_what_does_and_by_what_it_gets_done() -> None:
    budget = Budget(0.8)
    tried = [Setting("serial", 1), Setting("continuous", 2), Setting("continuous", 16)]
    found = search(bench(16.0), tried, budget)
    holds = [one.holds(budget) for one in found]
    assert holds == sorted(holds, reverse=True)
    rest = [one.good_share for one in found if not one.holds(budget)]
    assert rest == sorted(rest, reverse=True)


def test_the_least_that_is_as_good_is_advised() -> None:
    few = bench(1.0)
    budget = Budget(2.0)
    tried = [Setting("continuous", size, batched_tokens=512) for size in (4, 8, 16)]
    drawn = [schedule_of(1.0, seed=seed) for seed in (1, 2)]
    ordered, as_good = choose(few, search(few, tried, budget), budget, drawn)
    assert as_good >= 3
    assert ordered[0].setting == Setting("continuous", 4, batched_tokens=512)


def test_a_setting_that_only_fits_the_one_trace_is_not_advised() -> None:
    budget = Budget(1.5)
    one = bench(14.0)
    tried = [Setting("continuous", 8, high_water=64), Setting("continuous", 16, high_water=64)]
    drawn = [schedule_of(17.0, seed=seed) for seed in range(1, 6)]
    ordered, _ = choose(one, search(one, tried, budget), budget, drawn)
    sure = {setting.setting: certainty(one, setting.setting, budget, drawn).held for setting in ordered[:4]}
    assert sure[ordered[0].setting] == max(sure.values())


def test_one_trace_of_twenty_does_not_make_a_larger_batch_better(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = (Setting("continuous", size, batched_tokens=512) for size in (8, 16))
    budget = Budget(2.0)
    few = bench(1.0)
    found = [few.outlook(setting, budget) for setting in (large, small)]
    drawn = [schedule_of(1.0, seed=seed) for seed in range(20)]

    def advised(missed_by_small: int) -> Setting:
        def outlook(self: Bench, setting: Setting, _: Budget) -> Outlook:
            place = next(k for k, schedule in enumerate(drawn) if schedule is self.schedule)
            one = next(one for one in found if one.setting == setting)
            return replace(one, tail_s=9.0) if setting == small and place < missed_by_small else one

        with monkeypatch.context() as patch:
            patch.setattr(Bench, "outlook", outlook)
            return choose(few, found, budget, drawn)[0][0].setting

    assert [advised(0), advised(1), advised(2)] == [small, small, large]


def test_certainty_counts_the_draws_that_hold_and_how_much_slower_steps_may_be() -> None:
    budget = Budget(1.0)
    drawn = [schedule_of(6.0, seed=seed) for seed in range(1, 6)]
    sure = certainty(bench(6.0), Setting("continuous", 16), budget, drawn)
    assert (sure.draws, sure.held) == (5, 5)
    assert sure.tails_s is not None
    assert sure.tails_s[0] <= sure.tails_s[1] <= sure.tails_s[2] < 1.0
    assert sure.breaks_at is not None
    assert sure.slower < sure.breaks_at
    tight = certainty(bench(6.0), Setting("serial", 1), Budget(0.3), drawn)
    assert (tight.held, tight.slower, tight.breaks_at) == (0, 1.0, 1.05)


def test_no_setting_gives_less_than_what_requests_take_alone() -> None:
    schedule = schedule_of(0.2, length_s=100.0)
    cost = replace(COST, kv_token_ns=4_000, receive_us=300, reply_us=200)
    prompts = PromptMaker(chars_per_token=1)
    served = Bench(schedule, cost, prompts).outlook(Setting("serial", 1), Budget(9.0, 50.0))
    assert served.tail_s == pytest.approx(alone_s(schedule, cost, prompts, 50.0), rel=1e-6)


def test_each_simulation_is_counted() -> None:
    calls: list[int] = []
    counted = replace(bench(2.0), on_simulated=lambda: calls.append(1))
    drawn = [schedule_of(2.0, seed=seed) for seed in (1, 2)]
    budget = Budget(1.0)
    found = search(counted, [Setting("serial", 1), Setting("continuous", 4)], budget)
    assert len(calls) == len(found)
    before = len(calls)
    certainty(counted, Setting("serial", 1), budget, drawn)
    assert len(calls) > before + len(drawn)


def test_an_outlook_is_what_the_simulation_gave() -> None:
    # One request: 2 ms + 8 tokens x 100 us, then 3 decode steps of 8 ms.
    alone = Bench(
        plan(trace_of([0.0], output_tokens=[4], input_tokens=[8]), Shape()),
        COST,
        PromptMaker(chars_per_token=1),
    )
    outlook = alone.outlook(Setting("serial", 1), Budget(1.0))
    assert outlook.tail_s == outlook.mean_s == pytest.approx(0.0268)
    assert outlook.service_s == pytest.approx(0.0268)
    assert (outlook.error_rate, outlook.rejected, outlook.good_share, outlook.mean_batch) == (0, 0, 1, 1)
