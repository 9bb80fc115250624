"""Ledger: the values of runs that are compared, taken once each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loadgen.compare.cell import cells_for
from loadgen.compare.comparability import NotComparable
from loadgen.compare.compared_run import ComparedRun
from loadgen.compare.comparison import Terms
from loadgen.compare.run_rows import RunRows, read_rows, twins, window_kinds
from loadgen.compare.run_values import RunValues, Spans, run_values
from loadgen.compare.where import Whereabouts
from loadgen.errors import RunError


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
