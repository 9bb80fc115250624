"""Comparison: what is said of two versions, from their runs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from loadgen.compare import gate as gates_of
from loadgen.compare.cell import OF_REPORTS, Cell
from loadgen.compare.comparability import Difference
from loadgen.compare.compared_run import ComparedRun
from loadgen.compare.gate import Gate, GateState
from loadgen.compare.judgement import Judged, Plan
from loadgen.compare.verdict import Verdict, overall
from loadgen.compare.where import Part, Twin
from loadgen.errors import ExitCode
from loadgen.report.goodput import Bound

# Comparison format. Version 1 (2026-12).
FORMAT_VERSION = 1

# Shares are compared by difference; a change of this many is taken for none.
SHARE_MARGIN = 0.01

# A log ratio beyond this is no bound at all; no difference of shares is beyond 1.
_UNBOUNDED = math.log(1000)


@dataclass(frozen=True, slots=True)
class Terms:
    """How to compare. margin: a ratio's change that counts as none, as a share (0.05 is 5 %).

    bounds: of a good request. overridden: names of fields that may differ, `validity` and `order` among them.
    plan: false alarms allowed, and looks.
    """

    margin: float = 0.05
    bounds: tuple[Bound, ...] = ()
    gates: tuple[Gate, ...] = ()
    overridden: frozenset[str] = frozenset()
    plan: Plan = field(default_factory=Plan)


@dataclass(frozen=True, slots=True)
class CellResult:
    """One cell: medians over the runs of each side, in the metric's unit, None where no run has a value.

    base, candidate: over the twins that succeeded on both sides. base_own, candidate_own: over each side's own
    successes. decides: whether the verdict on the whole stands on it. reason: why there is no verdict, if so.
    runs: values of each run of the base and of the candidate, in order of time, NaN where a run has none. changes:
    within each pair, on the judged scale; none where runs are not paired.
    """

    cell: Cell
    base: float | None
    candidate: float | None
    base_own: float | None
    candidate_own: float | None
    judged: Judged
    decides: bool
    reason: str | None
    runs: tuple[tuple[float, ...], tuple[float, ...]]
    changes: tuple[float, ...]

    @property
    def verdict(self) -> Verdict:
        return self.judged.verdict

    def as_change(self, value: float) -> float | None:
        """A change on the judged scale as a share (0.05 is +5 %) or, of shares, as a difference.

        None where it is unknown or beyond all sense, as the bounds are that two runs leave.
        """
        if math.isnan(value) or abs(value) > (_UNBOUNDED if self.cell.is_ratio else 1.0):
            return None
        return math.expm1(value) if self.cell.is_ratio else value


@dataclass(frozen=True, slots=True)
class GateResult:
    gate: Gate
    state: GateState
    result: CellResult


@dataclass(frozen=True)
class Comparison:
    """pairing: paired, or unpaired where the sides differ in number. noise_pairs: of the record, that were used.

    weak: why a difference is not to be trusted, if so. outcomes: by side, counts by outcome over all runs.
    changed: what of the target and the machine differs. refused: metrics that the two sides define differently.
    """

    base: tuple[ComparedRun, ...]
    candidate: tuple[ComparedRun, ...]
    pairing: str
    noise_pairs: int
    terms: Terms
    results: tuple[CellResult, ...]
    gates: tuple[GateResult, ...]
    changed: tuple[Difference, ...]
    refused: tuple[Difference, ...]
    outcomes: tuple[dict[str, int], dict[str, int]]
    twins: tuple[int, int]  # succeeded on either side, and on both, over all pairs
    parts: tuple[Part, ...]
    worst: tuple[Twin, ...]
    weak: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def deciding(self) -> list[CellResult]:
        return [result for result in self.results if result.decides]

    @property
    def verdict(self) -> Verdict:
        return overall(result.verdict for result in self.deciding)

    @property
    def is_weak(self) -> bool:
        """A difference is seen, but the runs cannot show that it is the version's."""
        return bool(self.weak)

    @property
    def has_equal_successes(self) -> bool:
        """Whether the same requests succeeded on both sides, so that latencies are of the same set."""
        return self.twins[0] == self.twins[1]

    @property
    def is_decided(self) -> bool:
        """Nothing more to find out: a gate is broken or all are decided; or the verdict stands."""
        if self.gates:
            states = [one.state for one in self.gates]
            return GateState.BROKEN in states or GateState.UNDECIDED not in states
        if self.verdict is Verdict.WORSE:
            return True
        margins = [(r, _not_worse(r, self.terms)) for r in self.deciding]
        return (
            bool(margins)
            and all(r.verdict is not Verdict.INCONCLUSIVE or held for r, held in margins)
            and (self.verdict in (Verdict.BETTER, Verdict.SAME))
        )

    @property
    def more_pairs(self) -> int | None:
        """Pairs that would decide, if what was seen goes on; None if it is decided or too many are needed."""
        if self.is_decided:
            return None
        open_ones = [result.judged.more for result in self.deciding if result.verdict is Verdict.INCONCLUSIVE]
        known = [more for more in open_ones if more is not None]
        return max(known) if known and len(known) == len(open_ones) else None

    @property
    def exit_code(self) -> ExitCode:
        """1 worse or a gate broken, 3 inconclusive or weak, else 0."""
        if self.is_weak:
            return ExitCode.INCONCLUSIVE
        if self.gates:
            return gates_of.exit_code([one.state for one in self.gates])
        return self.verdict.exit_code

    def as_json(self) -> dict[str, Any]:
        """Plain values for strict JSON. Values in the metric's unit; changes as shares (0.05 is +5 %)."""
        return {
            "format_version": FORMAT_VERSION,
            "verdict": self.verdict,
            "evidence": "weak" if self.is_weak else "interleaved pairs or independent runs",
            "weak_because": list(self.weak),
            "exit_code": int(self.exit_code),
            "decided": self.is_decided,
            "more_pairs": self.more_pairs,
            "alpha": self.terms.plan.alpha,
            "looks": self.terms.plan.max_looks,
            "margin": self.terms.margin,
            "share_margin": SHARE_MARGIN,
            "pairing": self.pairing,
            "noise_pairs": self.noise_pairs,
            "base": [run.name for run in self.base],
            "candidate": [run.name for run in self.candidate],
            "changed": [asdict(one) for one in self.changed],
            "refused_metrics": [asdict(one) for one in self.refused],
            "outcomes": {"base": self.outcomes[0], "candidate": self.outcomes[1]},
            "twins": {"succeeded_on_either": self.twins[0], "succeeded_on_both": self.twins[1]},
            "cells": [_cell_json(result) for result in self.results],
            "gates": [
                {"gate": one.gate.text, "state": one.state, "cell": one.result.cell.text}
                for one in self.gates
            ],
            "where": [{**asdict(part), "ratio": part.ratio} for part in self.parts],
            "worst_twins": [asdict(twin) for twin in self.worst],
            "notes": list(self.notes),
        }


def _not_worse(result: CellResult, terms: Terms) -> bool:
    """Whether a change for the worse beyond the margin is excluded."""
    margin = math.log1p(terms.margin) if result.cell.is_ratio else SHARE_MARGIN
    if result.cell.of.better == "higher":
        return result.judged.low >= -margin
    return result.judged.high <= margin


def _cell_json(result: CellResult) -> dict[str, Any]:
    one = result.judged
    return {
        "metric": result.cell.metric,
        "statistic": result.cell.statistic,
        "window": result.cell.window,
        "unit": result.cell.of.unit,
        "better": result.cell.of.better,
        "definition": result.cell.of.definition_id,
        "source": "report" if result.cell.metric in OF_REPORTS else "records",
        "base": result.base,
        "candidate": result.candidate,
        "base_own": result.base_own,
        "candidate_own": result.candidate_own,
        "change_is": "ratio" if result.cell.is_ratio else "difference",
        "change": result.as_change(one.change),
        "low": result.as_change(one.low),
        "high": result.as_change(one.high),
        "low_alone": result.as_change(one.alone[0]),
        "high_alone": result.as_change(one.alone[1]),
        "level": one.level,
        "count": one.count,
        "decides": result.decides,
        "verdict": one.verdict,
        "decided_after": one.decided_after,
        "more_pairs": one.more,
        "reason": result.reason,
    }
