"""AbExperiment: pairs of runs, one after the other, until it is decided which version is worse."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadgen.atomic_file import write_text
from loadgen.compare.ab_folder import AbFolder, Pair
from loadgen.compare.compared_run import ComparedRun, UnusableRun, load_run
from loadgen.compare.comparing import check, conclude
from loadgen.compare.comparison import Comparison, Terms
from loadgen.compare.ledger import Ledger
from loadgen.compare.run_values import RunValues

Side = Literal["a", "b"]
# So many pairs in a row that do not count, and it is the generator that has to be looked after.
_MAX_VOID = 3


@dataclass(frozen=True, slots=True)
class SideRun:
    """A run that was made for a side. signal_name: of the signal that ended it early, or None."""

    run: ComparedRun
    signal_name: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """When to stop though nothing is decided, and what to run at least. The time is asked before each pair."""

    max_pairs: int
    min_pairs: int = 1
    has_time: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True)
class Ended:
    """why: decided, max-pairs, max-time, interrupted. comparison: None before the first pair that counts."""

    why: str
    comparison: Comparison | None
    signal_name: str | None = None


class AbExperiment:
    """Runs pairs into `folder`, goes on where it was stopped, and judges after each pair.

    run_side: makes one run of a side, in the folder. on_pair: is told of each pair that ended (with its number and
    the comparison so far, or None while none counts).

    The order within each pair is drawn by a fair coin from `seed`: whatever drifts while both run then moves each
    change up as often as down, and the t law is on the safe side (Efron, JASA 64, 1969).
    """

    def __init__(
        self,
        folder: AbFolder,
        run_side: Callable[[Side], SideRun],
        terms: Terms,
        seed: int,
        on_pair: Callable[[int, Pair, Comparison | None], None],
    ) -> None:
        self._folder = folder
        self._run_side = run_side
        self._terms = terms
        self._seed = seed
        self._on_pair = on_pair
        self._sides: tuple[list[ComparedRun], list[ComparedRun]] = ([], [])
        self._values: tuple[list[RunValues], list[RunValues]] = ([], [])
        self._ledger: Ledger | None = None
        self._comparison: Comparison | None = None
        self._started = 0
        self._voids = 0

    def resume(self) -> int:
        """Take up the pairs that are in the folder; returns how many count."""
        for pair in self._folder.pairs:
            self._started += 1
            if pair.void is None and pair.a is not None and pair.b is not None:
                runs = [load_run(self._folder.path / name) for name in (pair.a, pair.b)]
                self._count(runs[0], runs[1])
        return len(self._sides[0])

    def run(self, bounds: Bounds) -> Ended:
        """Run pairs until decided or out of bounds. Raises UnusableRun when the generator cannot keep up."""
        while True:
            done = len(self._sides[0])
            if self._comparison is not None and self._comparison.is_decided and done >= bounds.min_pairs:
                return self._end("decided")
            if done >= bounds.max_pairs:
                return self._end("max-pairs")
            if not bounds.has_time():
                return self._end("max-time")
            if (signal_name := self._pair()) is not None:
                return self._end("interrupted", signal_name)
            if self._voids >= _MAX_VOID:
                self._folder.end("invalid")
                raise UnusableRun(
                    f"{_MAX_VOID} pairs in a row do not count, the last since {self._folder.pairs[-1].void}",
                    hint="give the generator cores of its own, --realtime, or a higher --max-lateness",
                )

    def conclude(self) -> Ended:
        """What stands so far, of an experiment that was stopped between two runs."""
        return self._end("interrupted")

    def _pair(self) -> str | None:
        """Run one pair; returns the signal that ended it, if one did."""
        coin = np.random.default_rng([self._seed, self._started]).random() < 0.5
        order: tuple[Side, Side] = ("b", "a") if coin else ("a", "b")
        self._started += 1
        made: dict[Side, ComparedRun] = {}
        void = signal_name = None
        try:
            for side in order:
                one = self._run_side(side)
                made[side] = one.run
                signal_name = one.signal_name
                void = "it was interrupted" if signal_name else one.run.why_unusable
                if void is not None:
                    break
        except BaseException:
            self._note(order, made, "it was interrupted")
            raise
        self._note(order, made, void)
        self._voids = 0 if void is None else self._voids + 1
        if void is None:
            self._count(made["a"], made["b"])
        self._on_pair(self._started, self._folder.pairs[-1], self._comparison)
        return signal_name

    def _note(self, order: tuple[Side, Side], made: dict[Side, ComparedRun], void: str | None) -> None:
        names = {side: run.name for side, run in made.items()}
        self._folder.append(Pair("".join(order), names.get("a"), names.get("b"), void))

    def _count(self, a: ComparedRun, b: ComparedRun) -> None:
        self._sides[0].append(a)
        self._sides[1].append(b)
        refused = check(self._sides[0], self._sides[1], self._terms)
        if self._ledger is None:
            self._ledger = Ledger(a, self._terms, [one.field for one in refused])
        for kept, new in zip(self._values, self._ledger.pair(a, b), strict=True):
            kept.append(new)
        self._comparison = conclude(
            *self._sides,
            self._values,
            self._ledger,
            self._terms,
            None,
            refused,
            is_paired=True,
            is_interleaved=True,
        )

    def _end(self, why: str, signal_name: str | None = None) -> Ended:
        self._folder.end(why)
        if self._comparison is not None:
            document = json.dumps(self._comparison.as_json(), indent=1, allow_nan=False)
            write_text(self._folder.comparison_path, document + "\n")
        return Ended(why, self._comparison, signal_name)
