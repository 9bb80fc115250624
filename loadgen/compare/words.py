"""A comparison in words: the sentences and table rows that terminal, Markdown and JUnit have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loadgen.compare.cell import Cell
from loadgen.compare.comparison import SHARE_MARGIN, CellResult, Comparison, GateResult
from loadgen.compare.gate import GateState
from loadgen.compare.verdict import Verdict
from loadgen.compare.where import Part
from loadgen.durations import format_duration

_WORDS = {
    Verdict.WORSE: "WORSE",
    Verdict.BETTER: "better",
    Verdict.SAME: "same within the margin",
    Verdict.INCONCLUSIVE: "inconclusive",
}
SHORT = {**_WORDS, Verdict.SAME: "same"}
_NAMED = 4


def headline(comparison: Comparison) -> str:
    """The answer: the verdict and what it stands on."""
    if comparison.is_weak:
        return (
            "INCONCLUSIVE: differs; evidence weak" if _differs(comparison) else "INCONCLUSIVE: evidence weak"
        )
    if comparison.gates:
        return _of_gates(comparison.gates)
    verdict = comparison.verdict
    if verdict is Verdict.SAME:
        return f"same within {comparison.terms.margin * 100:.3g} %"
    if verdict is Verdict.INCONCLUSIVE:
        return "INCONCLUSIVE"
    named = [one.cell.name for one in comparison.deciding if one.verdict is verdict]
    also = [one.cell.name for one in comparison.deciding if one.verdict is Verdict.BETTER]
    text = f"{_WORDS[verdict]} in {', '.join(named)}"
    return text + (f" (better in {', '.join(also)})" if verdict is Verdict.WORSE and also else "")


def _of_gates(gates: Sequence[GateResult]) -> str:
    for state, text in (
        (GateState.BROKEN, "GATE BROKEN: {}"),
        (GateState.UNDECIDED, "INCONCLUSIVE: {} undecided"),
    ):
        if named := [one.gate.text for one in gates if one.state is state]:
            return text.format(", ".join(named))
    return "gates held"


def _differs(comparison: Comparison) -> bool:
    margin = comparison.terms.margin
    changes = [one.as_change(one.judged.change) for one in comparison.deciding]
    return any(change is not None and abs(change) > margin for change in changes)


def design(comparison: Comparison) -> str:
    """How many runs, paired or not, and what noise was used."""
    base, candidate = len(comparison.base), len(comparison.candidate)
    noise = (
        f"; noise of {comparison.noise_pairs} pairs of one version on record"
        if comparison.noise_pairs
        else ""
    )
    if comparison.pairing == "unpaired":
        return f"{_runs(base)} against {candidate}, not paired{noise}"
    pairs = "1 pair of runs" if base == 1 else f"{base} pairs of runs"
    return pairs + noise


def method(comparison: Comparison) -> str:
    """The threshold and the family, in one line."""
    terms = comparison.terms
    looks = f" and {terms.plan.max_looks} looks" if terms.plan.max_looks > 1 else ""
    return (
        f"false alarms {terms.plan.alpha * 100:.3g} % over {len(comparison.results)} figures{looks}; "
        f"margin {terms.margin * 100:.3g} %, of shares {SHARE_MARGIN * 100:.3g} point"
    )


def row(result: CellResult) -> tuple[str, str, str, str, str, str]:
    """name, base, candidate, change, interval, verdict."""
    return (
        result.cell.text,
        value(result.cell, result.base),
        value(result.cell, result.candidate),
        change(result, result.judged.change),
        interval(result),
        SHORT[result.verdict],
    )


def own_row(result: CellResult) -> tuple[str, str, str]:
    """name, base, candidate over each side's own successes."""
    return (
        result.cell.text,
        value(result.cell, result.base_own),
        value(result.cell, result.candidate_own),
    )


def value(cell: Cell, number: float | None) -> str:
    if number is None:
        return "-"
    if cell.of.unit == "share":
        return f"{number * 100:.2f} %"
    return format_duration(number) if cell.of.unit == "s" else f"{number:.4g}"


def change(result: CellResult, number: float) -> str:
    """+5.2 % of a ratio, +1.20 pt of a share."""
    known = result.as_change(number)
    if known is None:
        return "-"
    # -0.0 after rounding is no fall.
    percent = round(known * 100, 2) + 0.0
    return f"{percent:+.1f} %" if result.cell.is_ratio else f"{percent:+.2f} pt"


def interval(result: CellResult) -> str:
    low, high = change(result, result.judged.low), change(result, result.judged.high)
    if "-" in (low, high):
        return "unknown" if math.isnan(result.judged.low) else "any"
    unit = " %" if result.cell.is_ratio else " pt"
    return f"{low.removesuffix(unit)} to {high}"


def gate_words(one: GateResult) -> str:
    return (
        f"{one.gate.text}: {one.state.value.upper() if one.state is GateState.BROKEN else one.state.value}"
        + (f" (change {change(one.result, one.result.judged.change)}, {interval(one.result)})")
    )


def failures(comparison: Comparison) -> list[str]:
    """One line a side, and how many of what succeeded somewhere succeeded everywhere, where it differs."""
    lines = []
    for name, outcomes in zip(("base", "candidate"), comparison.outcomes, strict=True):
        counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
        lines.append(f"{name}: {counts or 'no requests'}")
    if not comparison.has_equal_successes:
        either, both = comparison.twins
        lines.append(
            f"the sides answered different requests: {both} of {either} that succeeded on one side did on both; "
            "latencies are over these"
        )
    return lines


def reasons(comparison: Comparison) -> list[str]:
    """Why deciding figures have no verdict, a line for each reason with the figures that it holds for."""
    named: dict[str, list[str]] = {}
    for one in comparison.deciding:
        if one.reason:
            named.setdefault(one.reason, []).append(one.cell.text)
    every = len(comparison.deciding)
    return [
        reason if len(names) == every > 1 else f"{', '.join(names)}: {reason}"
        for reason, names in named.items()
    ]


def beyond_deciding(comparison: Comparison) -> list[CellResult]:
    """Other figures and windows that differ."""
    return [
        one
        for one in comparison.results
        if not one.decides and one.verdict in (Verdict.BETTER, Verdict.WORSE)
    ]


def changed(comparison: Comparison) -> str | None:
    """What of the target or machine differs, in one line."""
    if not comparison.changed:
        return None
    shown = ", ".join(one.text for one in comparison.changed[:_NAMED])
    left = len(comparison.changed) - _NAMED
    return shown + (f" and {left} more" if left > 0 else "")


def more(comparison: Comparison) -> str | None:
    """How many more pairs would decide."""
    if comparison.is_decided or comparison.pairing == "unpaired":
        return None
    pairs = comparison.more_pairs
    if pairs is None:
        return "how many more pairs would decide cannot be told yet" if len(comparison.base) > 1 else None
    return f"about {pairs} more {'pair' if pairs == 1 else 'pairs'} would decide, if what was seen goes on"


def part_words(parts: Sequence[Part]) -> list[tuple[str, str, str, str, str]]:
    """kind, label, twins, base to candidate, change."""
    return [
        (
            part.kind,
            part.label,
            str(part.twins),
            f"{_seconds(part.base_s)} to {_seconds(part.candidate_s)}",
            "-" if part.ratio is None else f"{(part.ratio - 1) * 100:+.1f} %",
        )
        for part in parts
    ]


def _seconds(duration_s: float | None) -> str:
    return "-" if duration_s is None else format_duration(duration_s)


def _runs(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


def last_pair(comparison: Comparison) -> str:
    """The change of each deciding figure within the last pair, in one line."""
    return ", ".join(
        f"{one.cell.name} {change(one, one.changes[-1])}" for one in comparison.deciding[:_NAMED]
    )


def so_far(comparison: Comparison) -> str:
    """The running verdict, and how many more pairs would decide."""
    known = [one for one in comparison.deciding if one.reason is None]
    figures = ", ".join(f"{one.cell.name} {interval(one)} {SHORT[one.verdict]}" for one in known[:_NAMED])
    text = headline(comparison) if len(comparison.base) > 1 else "one pair says nothing of the noise"
    parts = [text, figures, more(comparison) or ""]
    return "; ".join(part for part in parts if part)
