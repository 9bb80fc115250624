"""Comparing: runs of two versions judged into one comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from loadgen.compare.cell import Cell, decides
from loadgen.compare.comparability import (
    Difference,
    NotComparable,
    differences,
    not_comparable,
    target_fields,
)
from loadgen.compare.compared_run import ComparedRun, in_time, refuse_unusable
from loadgen.compare.comparison import SHARE_MARGIN, CellResult, Comparison, GateResult, Terms
from loadgen.compare.estimate import unpaired
from loadgen.compare.judgement import Judged, Traits, differences_of, judge_once, judge_pairs
from loadgen.compare.laws import Floats
from loadgen.compare.ledger import Ledger
from loadgen.compare.run_values import RunValues, floors
from loadgen.compare.verdict import Verdict


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
        if count := sum(bool(run.facts.get("simulated")) for run in side):
            notes.append(f"simulated, nothing was sent: {count} of {len(side)} {name} runs")
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
