"""Judgement: each figure's change, its interval and its verdict, as they stand after the pairs that are in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from loadgen.compare.estimate import Estimate, paired
from loadgen.compare.family import Mask, step_down
from loadgen.compare.laws import Floats, two_sided_t_p, two_sided_t_quantile
from loadgen.compare.spending import nominal_levels
from loadgen.compare.verdict import Verdict, verdict_of

# No further than this many times the planned pairs is it said how many more would decide.
_HORIZON = 10


@dataclass(frozen=True, slots=True)
class Plan:
    """alpha: false alarms allowed over all figures and all looks. max_looks: pairs after which no more are run.

    One look stands for runs that exist already: nobody looked before.
    """

    alpha: float = 0.05
    max_looks: int = 1


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of each cell beforehand. better: lower, higher or neither. margin: in the change's scale.

    deciding: whether the verdict on the whole depends on it. floor: least standard error.
    """

    better: tuple[str, ...]
    margin: Floats
    deciding: Mask
    floor: Floats


@dataclass(frozen=True, slots=True)
class Judged:
    """One cell. change, low, high: log ratio or difference; NaN where unknown. alone: the interval of this cell
    by itself at one look (low, high), for those who ask about it only.

    level: false alarms that its interval allows, over all looks. count: pairs with a value on both sides.
    decided_after: the pair after which the verdict stood, or None. more: pairs that would decide it if what was
    seen went on; None where it is decided or would take too many.
    """

    change: float
    low: float
    high: float
    alone: tuple[float, float]
    level: float
    count: int
    verdict: Verdict
    decided_after: int | None
    more: int | None


def judge_pairs(differences: Floats, traits: Traits, plan: Plan, noise: Floats | None = None) -> list[Judged]:
    """Judge changes within pairs, (num_pairs, num_cells), in the order they were run.

    With max_looks above 1 every pair was a look. Intervals hold at all looks at once, so the tightest bounds so
    far are kept (repeated confidence intervals: Jennison and Turnbull, JRSS B 51, 1989).
    """
    num_pairs = differences.shape[0]
    looks = range(1, num_pairs + 1) if plan.max_looks > 1 else range(num_pairs, num_pairs + 1)
    state = _State(traits, plan)
    for look in looks:
        state.look(paired(differences[:look], traits.floor, noise), look)
    return state.judged()


def judge_once(estimate: Estimate, traits: Traits, plan: Plan) -> list[Judged]:
    """Judge one estimate at one look."""
    state = _State(traits, Plan(plan.alpha, 1))
    state.look(estimate, 1)
    return state.judged()


class _State:
    """What stands after some looks."""

    def __init__(self, traits: Traits, plan: Plan) -> None:
        self._traits = traits
        self._plan = plan
        count = len(traits.better)
        self._rejected = np.zeros(count, dtype=bool)
        self._low = np.full(count, -np.inf)
        self._high = np.full(count, np.inf)
        self._alphas = np.zeros(count)
        self._decided: list[int | None] = [None] * count
        self._verdicts = [Verdict.INCONCLUSIVE] * count
        self._estimate: Estimate | None = None

    def look(self, estimate: Estimate, look: int) -> None:
        self._estimate = estimate
        nominal = self._nominal(look)
        p = two_sided_t_p(estimate.change / estimate.error, estimate.df)
        rejected, alphas = step_down(
            p, self._traits.deciding, self._rejected, estimate.correlation, self._plan.alpha, nominal
        )
        # A cell that was decided keeps the level that it was decided at.
        self._alphas = np.where(alphas > 0, alphas, self._alphas)
        self._rejected = rejected
        levels = np.array([nominal(alpha) if alpha > 0 else 0.0 for alpha in self._alphas])
        reach = two_sided_t_quantile(levels, estimate.df) * estimate.error
        low, high = estimate.change - reach, estimate.change + reach
        low, high = np.fmax(self._low, low), np.fmin(self._high, high)
        # Bounds of different looks that contradict each other (as they may, within alpha): the last word holds.
        crossed = low > high
        self._low = np.where(crossed, estimate.change - reach, low)
        self._high = np.where(crossed, estimate.change + reach, high)
        for cell, (better, margin) in enumerate(zip(self._traits.better, self._traits.margin, strict=True)):
            verdict = Verdict.INCONCLUSIVE
            if np.isfinite(self._low[cell]) and np.isfinite(self._high[cell]):
                verdict = verdict_of(self._low[cell], self._high[cell], margin, better)
            if verdict != self._verdicts[cell]:
                self._decided[cell] = None if verdict is Verdict.INCONCLUSIVE else look
            self._verdicts[cell] = verdict

    def judged(self) -> list[Judged]:
        estimate = self._estimate
        assert estimate is not None, "nothing was looked at"
        half = (
            two_sided_t_quantile(np.full(estimate.df.shape, self._plan.alpha), estimate.df) * estimate.error
        )
        found = []
        for cell, verdict in enumerate(self._verdicts):
            change = float(estimate.change[cell])
            known = np.isfinite(self._low[cell]) and np.isfinite(self._high[cell]) and not np.isnan(change)
            found.append(
                Judged(
                    change=change,
                    low=float(self._low[cell]) if known else float("nan"),
                    high=float(self._high[cell]) if known else float("nan"),
                    alone=(change - float(half[cell]), change + float(half[cell])),
                    level=float(self._alphas[cell]),
                    count=int(estimate.count[cell]),
                    verdict=verdict,
                    decided_after=self._decided[cell],
                    more=self._more(estimate, cell) if verdict is Verdict.INCONCLUSIVE else None,
                )
            )
        return found

    def _nominal(self, look: int) -> Callable[[float], float]:
        return partial(_level_at, look=look, max_looks=self._plan.max_looks)

    def _more(self, estimate: Estimate, cell: int) -> int | None:
        """Pairs until the interval would exclude 0 or fit the margin, if mean and spread stay as they are."""
        count, change, error = (
            int(estimate.count[cell]),
            abs(float(estimate.change[cell])),
            estimate.error[cell],
        )
        if count < 2 or not np.isfinite(error) or np.isnan(change):
            return None
        distance = max(change, float(self._traits.margin[cell]) - change)
        total = max(self._plan.max_looks, count)
        tries = np.arange(count + 1, _HORIZON * total + 1)
        if not tries.size:
            return None
        alpha = self._alphas[cell] or self._plan.alpha / len(self._traits.better)
        levels = np.array([_level_at(alpha, min(int(number), total), total) for number in tries])
        reach = two_sided_t_quantile(levels, tries - 1.0) * error * np.sqrt(count / tries)
        enough = np.flatnonzero(reach < distance)
        return int(tries[enough[0]]) - count if enough.size else None


def _level_at(alpha: float, look: int, max_looks: int) -> float:
    if max_looks == 1:
        return alpha
    return nominal_levels(alpha, max_looks)[min(look, max_looks) - 1]


def differences_of(base: Floats, candidate: Floats, is_ratio: Sequence[bool]) -> Floats:
    """Changes of candidate against base: log ratios where is_ratio, else differences; NaN for an undefined one."""
    ratio = np.asarray(is_ratio, dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(candidate) - np.log(base)
    return np.where(ratio, np.where(np.isfinite(logs), logs, np.nan), candidate - base)
