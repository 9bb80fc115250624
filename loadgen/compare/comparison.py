"""Comparison: what is said of two versions, from their runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from loadgen.compare import gate as gates_of
from loadgen.compare.cell import OF_REPORTS, Cell, cells_for, decides
from loadgen.compare.comparability import Difference, differences, not_comparable, target_fields
from loadgen.compare.compared_run import ComparedRun, in_time, refuse_unusable
from loadgen.compare.estimate import unpaired
from loadgen.compare.gate import Gate, GateState
from loadgen.compare.judgement import Judged, Plan, Traits, differences_of, judge_once, judge_pairs
from loadgen.compare.laws import Floats
from loadgen.compare.run_rows import RunRows, read_rows, twins, window_kinds
from loadgen.compare.run_values import RunValues, Spans, floors, run_values
from loadgen.compare.verdict import Verdict, overall
from loadgen.compare.where import Part, Twin, Whereabouts
from loadgen.errors import ExitCode, RunError
from loadgen.report.goodput import Bound

# Comparison format. Version 1 (2026-12).
FORMAT_VERSION = 1

# Shares are compared by difference; a change of this many is taken for none.
SHARE_MARGIN = 0.01

# A log ratio beyond this is no bound at all; no difference of shares is beyond 1.
_UNBOUNDED = math.log(1000)


class NotComparable(RunError):
    """Runs that were not sent the same load under the same limits."""


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


class Ledger:
    """Values of runs, taken once each; what is judged grows by a pair at a time. Reads run folders."""

    def __init__(self, first: ComparedRun, terms: Terms, refused: Sequence[str] = ()) -> None:
        windows = first.folder.read_schedule().windows
        labels = list(dict.fromkeys(window.label for window in windows))
        kinds = window_kinds(labels)
        names = list(dict.fromkeys(kinds.values()))
        known = set(names) | {"overall"}
        for one in terms.gates:
            if one.cell.window not in known:
                raise RunError(
                    f"gate {one.text!r}: the runs have no window {one.cell.window}",
                    hint=f"windows: {', '.join(names)}",
                )
            if one.cell.metric == "goodput" and not terms.bounds:
                raise RunError(
                    f"gate {one.text!r}: nothing says what a good request is",
                    hint="--goodput 'ttft:800ms latency:3s'",
                )
        # A single window is the whole.
        found = cells_for(
            names if len(names) > 1 else (),
            [one.cell for one in terms.gates],
            with_goodput=bool(terms.bounds),
        )
        self.cells = [cell for cell in found if cell.metric not in refused]
        self._spans = Spans.of(windows, kinds)
        self._bounds = terms.bounds
        self.where: Whereabouts | None = None
        self.twins_either = 0
        self.twins_ok = 0

    def pair(
        self, base: ComparedRun, candidate: ComparedRun, *, is_noise: bool = False
    ) -> tuple[RunValues, RunValues]:
        """The values of two runs that belong together."""
        ours, theirs = twins(read_rows(base.folder), read_rows(candidate.folder))
        both_ok = ours.is_ok & theirs.is_ok
        if not is_noise:
            self.twins_either += int((ours.is_ok | theirs.is_ok).sum())
            self.twins_ok += int(both_ok.sum())
            self.where = self.where or Whereabouts(ours)
            self.where.add(ours, theirs, both_ok)
        return self._values(base, ours, both_ok), self._values(candidate, theirs, both_ok)

    def unpaired(
        self, base: Sequence[ComparedRun], candidate: Sequence[ComparedRun]
    ) -> tuple[list[RunValues], list[RunValues]]:
        """The values of runs without partners, over what succeeded in all of them."""
        first = read_rows(base[0].folder)
        all_ok, any_ok = first.is_ok.copy(), first.is_ok.copy()
        for run in (*base[1:], *candidate):
            _, rows = twins(first, read_rows(run.folder))
            if rows.num_requests != first.num_requests:
                raise NotComparable(
                    f"{run.name}: has other requests than {base[0].name}",
                    hint="give equal numbers of runs a side to pair them",
                )
            all_ok &= rows.is_ok
            any_ok |= rows.is_ok
        self.twins_either, self.twins_ok = int(any_ok.sum()), int(all_ok.sum())
        ours, theirs = (
            [self._values(run, twins(first, read_rows(run.folder))[1], all_ok) for run in side]
            for side in (base, candidate)
        )
        return ours, theirs

    def _values(self, run: ComparedRun, rows: RunRows, both_ok: Any) -> RunValues:
        return run_values(rows, both_ok, self.cells, self._spans, self._bounds, run.report.figures)


def compare_runs(
    base: Sequence[ComparedRun],
    candidate: Sequence[ComparedRun],
    terms: Terms,
    noise: Sequence[ComparedRun] = (),
) -> Comparison:
    """Compare runs that exist: paired in order of time where both sides have as many, else unpaired.

    Raises UnusableRun, NotComparable (with the fields), RunError.
    """
    base, candidate = in_time(base), in_time(candidate)
    refused = check(base, candidate, terms, noise)
    ledger = Ledger(base[0], terms, [one.field for one in refused])
    is_paired = len(base) == len(candidate)
    if is_paired:
        values = [ledger.pair(*two) for two in zip(base, candidate, strict=True)]
        sides = [one for one, _ in values], [other for _, other in values]
    else:
        sides = ledger.unpaired(base, candidate)
    noise = in_time(noise)
    spread = noise_of(
        [ledger.pair(*two, is_noise=True) for two in zip(noise[::2], noise[1::2], strict=False)], ledger.cells
    )
    return conclude(base, candidate, sides, ledger, terms, spread, refused, is_paired=is_paired)


def check(
    base: Sequence[ComparedRun],
    candidate: Sequence[ComparedRun],
    terms: Terms,
    noise: Sequence[ComparedRun] = (),
) -> list[Difference]:
    """Refuse what cannot be compared; returns the metrics that the runs define differently.

    Raises UnusableRun, or NotComparable with the fields.
    """
    refuse_unusable((*base, *candidate, *noise), terms.overridden)
    differ = not_comparable(
        [run.facts for run in base], [run.facts for run in (*candidate, *noise)], tuple(terms.overridden)
    )
    methods = {run.report.percentile_method for run in (*base, *candidate)}
    if len(methods) > 1 and "percentile_method" not in terms.overridden:
        differ.append(Difference("percentile_method", *sorted(methods)[:2]))
    if differ:
        names = dict.fromkeys(one.field.partition(".")[0] for one in differ)
        raise NotComparable(
            "not comparable: " + "; ".join(one.text for one in differ),
            hint="repeat with the same settings, or: " + " ".join(f"--override {name}" for name in names),
        )
    first = base[0].report.definition_ids
    found: dict[str, Difference] = {}
    for run in (*base[1:], *candidate):
        for one in differences(first, run.report.definition_ids):
            found.setdefault(one.field, one)
    return list(found.values())


def noise_of(pairs: Sequence[tuple[RunValues, RunValues]], cells: Sequence[Cell]) -> Floats | None:
    """Changes within pairs of runs of one version, (num_pairs, num_cells); None without any."""
    if not pairs:
        return None
    is_ratio = [cell.is_ratio for cell in cells]
    return differences_of(
        np.stack([one.shared for one, _ in pairs]), np.stack([other.shared for _, other in pairs]), is_ratio
    )


def conclude(
    base: Sequence[ComparedRun],
    candidate: Sequence[ComparedRun],
    sides: tuple[Sequence[RunValues], Sequence[RunValues]],
    ledger: Ledger,
    terms: Terms,
    noise: Floats | None,
    refused: Sequence[Difference],
    *,
    is_paired: bool,
    is_interleaved: bool | None = None,
) -> Comparison:
    """Judge the values and put everything together. is_interleaved: None is seen from the runs' times."""
    cells = ledger.cells
    shared = [np.stack([values.shared for values in side]) for side in sides]
    own = [np.stack([values.own for values in side]) for side in sides]
    is_ratio = [cell.is_ratio for cell in cells]
    gated = {one.cell for one in terms.gates}
    traits = Traits(
        better=tuple(cell.of.better for cell in cells),
        margin=np.array([math.log1p(terms.margin) if cell.is_ratio else SHARE_MARGIN for cell in cells]),
        deciding=np.array([cell in gated if gated else decides(cell) for cell in cells]),
        floor=floors(*sides, cells),
    )
    changes = differences_of(shared[0], shared[1], is_ratio) if is_paired else np.empty((0, len(cells)))
    if is_paired:
        judged = judge_pairs(changes, traits, terms.plan, noise)
    else:
        logs = [_scaled(side, is_ratio) for side in shared]
        judged = judge_once(unpaired(logs[0], logs[1], traits.floor, noise), traits, terms.plan)
    results = tuple(
        CellResult(
            cell=cell,
            base=_median(shared[0][:, place]),
            candidate=_median(shared[1][:, place]),
            base_own=_median(own[0][:, place]),
            candidate_own=_median(own[1][:, place]),
            judged=one,
            # What neither side has decides nothing.
            decides=bool(traits.deciding[place]) and not all(np.isnan(side[:, place]).all() for side in own),
            reason=_why_not(shared, place, one),
            runs=(tuple(shared[0][:, place].tolist()), tuple(shared[1][:, place].tolist())),
            changes=tuple(changes[:, place].tolist()),
        )
        for place, (cell, one) in enumerate(zip(cells, judged, strict=True))
    )
    by_cell = {result.cell: result for result in results}
    gates = tuple(
        GateResult(
            one, one.state(by_cell[one.cell].judged.low, by_cell[one.cell].judged.high), by_cell[one.cell]
        )
        for one in terms.gates
        if one.cell in by_cell
    )
    if is_interleaved is None:
        is_interleaved = _is_interleaved(base, candidate)
    noise_pairs = 0 if noise is None else len(noise)
    return Comparison(
        base=tuple(base),
        candidate=tuple(candidate),
        pairing="paired" if is_paired else "unpaired",
        noise_pairs=noise_pairs,
        terms=terms,
        results=results,
        gates=gates,
        changed=tuple(differences(target_fields(base[0].facts), target_fields(candidate[0].facts))),
        refused=tuple(refused),
        outcomes=(_outcomes(base), _outcomes(candidate)),
        twins=(ledger.twins_either, ledger.twins_ok),
        parts=tuple(ledger.where.parts()) if ledger.where else (),
        worst=tuple(ledger.where.worst()) if ledger.where else (),
        weak=tuple(_weak(len(base), len(candidate), noise_pairs, terms, is_interleaved=is_interleaved)),
        notes=tuple(_notes(base, candidate, is_paired=is_paired)),
    )


def _weak(base: int, candidate: int, noise_pairs: int, terms: Terms, *, is_interleaved: bool) -> list[str]:
    if base == candidate == 1:
        if noise_pairs:
            return []
        return ["one run a side, and the noise of this target from run to run is not known"]
    if not is_interleaved and not noise_pairs and "order" not in terms.overridden:
        return ["all runs of one side came before the other's: drift between them counts as a change"]
    return []


def _notes(base: Sequence[ComparedRun], candidate: Sequence[ComparedRun], *, is_paired: bool) -> list[str]:
    notes = []
    if not is_paired:
        notes.append(
            f"{len(base)} runs against {len(candidate)}: not paired, each side's own spread from run to run is used"
        )
    for name, side in (("base", base), ("candidate", candidate)):
        mixed = {
            d.field
            for run in side[1:]
            for d in differences(target_fields(side[0].facts), target_fields(run.facts))
        }
        mixed -= {"url"}
        if mixed:
            notes.append(
                f"the {name} runs are not of one target: {', '.join(sorted(mixed)[:4])} differ among them"
            )
    return notes


def _is_interleaved(base: Sequence[ComparedRun], candidate: Sequence[ComparedRun]) -> bool:
    ours, theirs = [run.moment for run in base], [run.moment for run in candidate]
    return not (max(ours) < min(theirs) or max(theirs) < min(ours))


def _outcomes(runs: Sequence[ComparedRun]) -> dict[str, int]:
    total: dict[str, int] = {}
    for run in runs:
        for name, count in run.report.outcomes.items():
            total[name] = total.get(name, 0) + count
    return total


def _not_worse(result: CellResult, terms: Terms) -> bool:
    """Whether a change for the worse beyond the margin is excluded."""
    margin = math.log1p(terms.margin) if result.cell.is_ratio else SHARE_MARGIN
    if result.cell.of.better == "higher":
        return result.judged.low >= -margin
    return result.judged.high <= margin


def _scaled(values: Floats, is_ratio: Sequence[bool]) -> Floats:
    ratio = np.asarray(is_ratio, dtype=bool)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(values)
    return np.where(ratio, np.where(np.isfinite(logs), logs, np.nan), values)


def _median(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else None


def _why_not(sides: Sequence[Floats], place: int, judged: Judged) -> str | None:
    if judged.verdict is not Verdict.INCONCLUSIVE:
        return None
    has = [not np.isnan(side[:, place]).all() for side in sides]
    if not any(has):
        return "no run has a value over requests that succeeded on both sides"
    if not all(has):
        return f"the {'candidate' if has[0] else 'base'} has no value"
    if judged.count == 0:
        return "no pair has a ratio: a side is 0"
    if math.isnan(judged.low):
        return "too few runs to know the noise"
    return None


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
