"""Executing: when the server was executing any request, by the stages of its answers."""

from __future__ import annotations

import numpy as np

from loadgen.report.figures import Floats


class Executing:
    """starts_s, ends_s: of each execution, float64 (num_executions,) in any order; they may overlap."""

    def __init__(self, starts_s: Floats, ends_s: Floats) -> None:
        order = np.argsort(starts_s, kind="stable")
        starts, ends = starts_s[order], np.maximum.accumulate(ends_s[order])
        # A stretch begins where all that began before has ended.
        begins = np.flatnonzero(np.concatenate([[True], starts[1:] > ends[:-1]])[: starts.size])
        last = np.concatenate([begins[1:], [starts.size]])[: begins.size] - 1
        lengths = ends[last] - starts[begins]
        self._edges = np.column_stack([starts[begins], ends[last]]).ravel()
        self._busy = np.column_stack([np.cumsum(lengths) - lengths, np.cumsum(lengths)]).ravel()

    def seconds_within(self, since_s: Floats, until_s: Floats) -> Floats:
        """How long anything was executing in each of these spans."""
        if not self._edges.size:
            return np.zeros(since_s.size)
        before = np.interp(since_s, self._edges, self._busy)
        return np.asarray(np.interp(until_s, self._edges, self._busy) - before, dtype=np.float64)
