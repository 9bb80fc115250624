"""Advice: all that is told of a question, as one value and as strict JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from loadgen.advise.arithmetic import Little, Rates, fills
from loadgen.advise.search import Budget, Certainty, Outlook
from loadgen.advise.setting import Elsewhere


@dataclass(frozen=True, slots=True)
class Advice:
    """All that is told. outlooks: best first; as_good: how many could be in front.

    present: what a simulation says of the setting in use.

    alone_s: the budget's percentile of the latency that requests would have one by one, which no setting beats.
    notes: what weakens the advice.
    """

    budget: Budget
    rates: Rates
    law: Little | None
    outlooks: Sequence[Outlook]
    as_good: int
    certainty: Certainty
    present: Outlook | None
    present_flags: str | None
    elsewhere: Sequence[Elsewhere]
    cost_from: str
    serve: str
    alone_s: float
    notes: Sequence[str]

    @property
    def best(self) -> Outlook:
        return self.outlooks[0]

    @property
    def flags(self) -> str:
        return f"{self.serve} {self.best.setting.flags}".strip()

    @property
    def by_policy(self) -> dict[str, Outlook]:
        """The best of each policy, best policy first."""
        found: dict[str, Outlook] = {}
        for one in self.outlooks:
            found.setdefault(one.setting.policy, one)
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "budget": asdict(self.budget),
            "rates": asdict(self.rates),
            "formula": {
                "mean": None if self.rates.mean is None else self._fills(self.rates.mean),
                "busy": self._fills(self.rates.busy),
            },
            "little": None if self.law is None else asdict(self.law),
            "cost_from": self.cost_from,
            "simulated": len(self.outlooks),
            "holds": self.best.holds(self.budget),
            "as_good": self.as_good,
            "alone_s": self.alone_s,
            "notes": list(self.notes),
            "flags": self.flags,
            "advised": _outlook_json(self.best, self.budget),
            "certainty": asdict(self.certainty),
            "present": None
            if self.present is None
            else {**_outlook_json(self.present, self.budget), "flags": self.present_flags},
            "best_of_each_policy": {
                name: _outlook_json(one, self.budget) for name, one in self.by_policy.items()
            },
            "elsewhere": [asdict(one) for one in self.elsewhere],
        }

    def _fills(self, rate: float) -> list[dict[str, Any]]:
        return [asdict(fill) for fill in fills(rate, self.budget.latency_s)]


def _outlook_json(one: Outlook, budget: Budget) -> dict[str, Any]:
    return {**asdict(one), "flags": one.setting.flags, "holds": one.holds(budget)}
