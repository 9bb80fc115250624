"""Search: each candidate simulated on the schedule, the best of those that hold, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from loadgen.advise.setting import Setting
from loadgen.percentiles import nearest_rank
from loadgen.plan.prompts import PromptMaker
from loadgen.plan.schedule import Schedule
from loadgen.simulate.cost_model import CostModel
from loadgen.simulate.records import arrivals_of
from loadgen.simulate.served import OK, REJECTED
from loadgen.simulate.simulated_run import serve, simulable_config

_HIGH_WATERS = (4, 8, 16, 32, 64, 128, 256)
# So many of the best get their high water searched, too.
_REFINED = 12
# Settings this near to the best are as good, and so many of them are tried on other traces, too.
_AS_GOOD = 1.1
_TRIED_ON_DRAWS = 16
# One trace of so many more or less is chance, not a better setting.
_DRAWS_OF_CHANCE = 20
_SLOWER = (1.05, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0, 3.0)


@dataclass(frozen=True, slots=True)
class Budget:
    """What must hold over all planned requests: a percentile of latency, and a share that may fail."""

    latency_s: float
    percent: float = 99.0
    error_rate: float = 0.01


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a simulation says of a setting. tail_s: the budget's percentile of latency; None if nothing succeeded.

    good_share: of planned requests that succeeded within the budget. busy_share: of the time with a step running.
    """

    setting: Setting
    tail_s: float | None
    mean_s: float | None
    error_rate: float
    rejected: int
    good_share: float
    throughput: float | None
    mean_batch: float | None
    service_s: float | None
    busy_share: float | None

    def holds(self, budget: Budget) -> bool:
        return (
            self.tail_s is not None
            and self.tail_s <= budget.latency_s
            and self.error_rate <= budget.error_rate
        )

    def rank(self, budget: Budget) -> tuple[float, ...]:
        """Lower is better: those that hold by their tail, the others by what they get done in time."""
        if self.holds(budget):
            assert self.tail_s is not None and self.mean_s is not None
            return (0.0, self.tail_s, self.mean_s)
        return (1.0, -self.good_share, self.tail_s if self.tail_s is not None else np.inf)


@dataclass(frozen=True, slots=True)
class Bench:
    """What candidates are simulated on. serve: flags of the server that all share (model, timeout).

    on_simulated: called after each simulation.
    """

    schedule: Schedule
    cost: CostModel
    prompts: PromptMaker
    serve: str = ""
    on_simulated: Callable[[], None] | None = None

    def outlook(self, setting: Setting, budget: Budget) -> Outlook:
        return self.outlook_of(setting, f"{self.serve} {setting.flags}", budget)

    def outlook_of(self, setting: Setting, flags: str, budget: Budget) -> Outlook:
        """Simulate these flags; `setting` is what they stand for."""
        _, served = serve(self.schedule, simulable_config(flags), self.cost, self.prompts)
        if self.on_simulated is not None:
            self.on_simulated()
        ok = served.status == OK
        reply_ns = round(self.cost.reply_us * 1e3)
        planned = self.schedule.planned_ns
        latency = (served.ended_ns + reply_ns - planned)[ok] / 1e9
        steps = np.maximum(served.output_tokens[ok], 1)
        busy_ns = sum(int(one.busy_ns.sum()) for one in served.stretches)
        busy_ns += int((served.prefills.end_ns - served.prefills.start_ns).sum())
        span_s = float(served.ended_ns[ok].max() - planned[0]) / 1e9 if ok.any() else 0.0
        whole_s = max(float(served.ended_ns.max()) / 1e9, self.schedule.end_ns / 1e9)
        return Outlook(
            setting,
            nearest_rank(latency, [budget.percent])[0],
            float(latency.mean()) if latency.size else None,
            1 - float(ok.mean()),
            int((served.status == REJECTED).sum()),
            float((latency <= budget.latency_s).sum() / planned.size),
            float(ok.sum()) / span_s if span_s > 0 else None,
            float((served.batch_sum[ok] / steps).mean()) if ok.any() else None,
            float((served.ended_ns - served.exec_start_ns)[ok].mean() / 1e9) if ok.any() else None,
            busy_ns / 1e9 / whole_s if whole_s > 0 else None,
        )


def alone_s(schedule: Schedule, cost: CostModel, prompts: PromptMaker, percent: float) -> float:
    """That percentile of the latency that each request would have by itself: no setting can give less."""
    arrivals = arrivals_of(schedule, cost, prompts)
    tokens, more = arrivals.prompt_tokens, arrivals.output_tokens - 1
    prefill_us = cost.prefill_us + cost.prefill_row_us + cost.prefill_token_us * tokens
    # The first of these passes finds the prompt and one token in the cache, each other one more.
    positions = more * (tokens + 1) + more * (more - 1) / 2
    decode_us = more * (cost.decode_rows_ns(1) / 1e3) + positions * (round(cost.kv_token_ns) / 1e3)
    all_s = (cost.receive_us + prefill_us + decode_us + cost.reply_us) / 1e6
    found = nearest_rank(all_s, [percent])[0]
    assert found is not None
    return found


def search(bench: Bench, candidates: Sequence[Setting], budget: Budget) -> list[Outlook]:
    """All that was simulated, best first: every candidate, then other high waters of the best."""
    found = {setting: bench.outlook(setting, budget) for setting in candidates}
    for outlook in _ordered(found.values(), budget)[:_REFINED]:
        for limit in _HIGH_WATERS:
            setting = outlook.setting.with_high_water(limit)
            if setting not in found:
                found[setting] = bench.outlook(setting, budget)
    return _ordered(found.values(), budget)


def choose(
    bench: Bench, outlooks: Sequence[Outlook], budget: Budget, drawn: Sequence[Schedule]
) -> tuple[list[Outlook], int]:
    """The same with the one to advise in front, and how many were as good as that one.

    Of those whose tail is within 10 % of the best one's, it is one that holds on most of the traces `drawn`
    alike: a single trace rewards what happens to fit it. Of equals (one trace in 20 is
    chance) it is the one that asks for least.
    """
    best = outlooks[0]
    if not best.holds(budget) or best.tail_s is None:
        return list(outlooks), 1
    near = [
        one for one in outlooks
        if one.holds(budget) and one.tail_s is not None and one.tail_s <= _AS_GOOD * best.tail_s
    ]  # fmt: skip
    near = sorted(near, key=_asks)[:_TRIED_ON_DRAWS]
    if best not in near:
        near.append(best)

    def misses(one: Outlook) -> int:
        benches = (replace(bench, schedule=schedule) for schedule in drawn)
        return sum(not other.outlook(one.setting, budget).holds(budget) for other in benches)

    missed = {one.setting: misses(one) for one in near}
    fewest = min(missed.values()) + len(drawn) // _DRAWS_OF_CHANCE
    equal = [one for one in near if missed[one.setting] <= fewest]
    first = min(equal, key=_asks)
    return [first, *(one for one in outlooks if one is not first)], len(equal)


def _asks(outlook: Outlook) -> tuple[float, ...]:
    """How much a setting asks for. Among high waters the usual 64 is as good as any that does the same."""
    setting = outlook.setting
    return (
        setting.max_batch * setting.inflight,
        setting.inflight,
        setting.wait_ms or setting.window_ms or 0.0,
        abs(np.log2(setting.high_water / 64)),
        setting.batched_tokens or 0,
    )


def _ordered(outlooks: Iterable[Outlook], budget: Budget) -> list[Outlook]:
    return sorted(outlooks, key=lambda one: one.rank(budget))


@dataclass(frozen=True, slots=True)
class Certainty:
    """How sure it is that a setting holds.

    draws: traces drawn alike; held: those on which it holds; tails_s: lowest, median and highest tail over them.
    slower: the largest factor tried by which steps may be slower and the setting still holds; 1 if none may.
    """

    draws: int
    held: int
    tails_s: tuple[float, float, float] | None
    slower: float
    breaks_at: float | None


def certainty(bench: Bench, setting: Setting, budget: Budget, drawn: Sequence[Schedule]) -> Certainty:
    """drawn: schedules of traces drawn like the one in question."""
    outlooks = [replace(bench, schedule=schedule).outlook(setting, budget) for schedule in drawn]
    tails = [one.tail_s for one in outlooks if one.tail_s is not None]
    slower, breaks_at = 1.0, None
    for factor in _SLOWER:
        slow = replace(bench, cost=bench.cost.scaled(factor))
        if not slow.outlook(setting, budget).holds(budget):
            breaks_at = factor
            break
        slower = factor
    return Certainty(
        len(drawn),
        sum(one.holds(budget) for one in outlooks),
        (min(tails), float(np.median(tails)), max(tails)) if tails else None,
        slower,
        breaks_at,
    )
