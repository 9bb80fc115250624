"""Where: in which requests a difference sits. It says where, never whether: twins of one pair share its noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from loadgen.compare.laws import Floats
from loadgen.compare.run_rows import Mask, RunRows

_BINS = 4
_TIME_BINS = 8
NUM_WORST = 5


@dataclass(frozen=True, slots=True)
class Part:
    """Some requests, and their mean latency: base_s and candidate_s over all pairs; None where none succeeded."""

    kind: str
    label: str
    twins: int
    base_s: float | None
    candidate_s: float | None

    @property
    def ratio(self) -> float | None:
        if not self.base_s or self.candidate_s is None:
            return None
        return self.candidate_s / self.base_s


@dataclass(frozen=True, slots=True)
class Twin:
    """One request of the schedule and its mean latency on both sides, in s."""

    trace_row: int
    copy: int
    window: str
    planned_s: float
    input_tokens: int | None
    output_tokens: int | None
    base_s: float
    candidate_s: float


class Whereabouts:
    """Sums over the pairs, request by request."""

    def __init__(self, rows: RunRows) -> None:
        self._rows = rows
        self._base_s = np.zeros(rows.num_requests)
        self._candidate_s = np.zeros(rows.num_requests)
        self._count = np.zeros(rows.num_requests)

    def add(self, base: RunRows, candidate: RunRows, both_ok: Mask) -> None:
        """One pair; all pairs of an experiment plan the same requests."""
        if base.num_requests != self._rows.num_requests:
            return  # overridden schedules: pairs of another shape have no place here
        self._base_s += np.where(both_ok, base.metric("latency"), 0.0)
        self._candidate_s += np.where(both_ok, candidate.metric("latency"), 0.0)
        self._count += both_ok

    def parts(self) -> list[Part]:
        """By window, input length, output length and time."""
        rows = self._rows
        codes = rows.window_codes.astype(np.int64)
        found = [self._part("window", label, codes == code) for code, label in enumerate(rows.labels)]
        for kind, values in (("input tokens", rows.input_tokens), ("output tokens", rows.planned_tokens)):
            found += self._by_quantile(kind, values)
        end_s = float(rows.planned_s.max(initial=0.0))
        edges = np.linspace(0, end_s, _TIME_BINS + 1)
        for start_s, until_s in pairwise(edges):
            inside = (rows.planned_s >= start_s) & ((rows.planned_s < until_s) | (until_s == end_s))
            found.append(self._part("time", f"{start_s:.1f} to {until_s:.1f} s", inside))
        return [part for part in found if part.twins]

    def worst(self) -> list[Twin]:
        """The requests that grew most, in s, first; only those that grew."""
        with np.errstate(divide="ignore", invalid="ignore"):
            growth = (self._candidate_s - self._base_s) / self._count
        growth = np.where(self._count > 0, growth, -np.inf)
        places = np.argsort(-growth, kind="stable")[:NUM_WORST]
        return [self._twin(int(place)) for place in places if growth[place] > 0]

    def _twin(self, place: int) -> Twin:
        rows, count = self._rows, self._count[place]
        return Twin(
            trace_row=int(rows.key[place] >> 16),
            copy=int(rows.key[place] & 0xFFFF),
            window=rows.labels[rows.window_codes[place]],
            planned_s=float(rows.planned_s[place]),
            input_tokens=_whole(rows.input_tokens[place]),
            output_tokens=_whole(rows.planned_tokens[place]),
            base_s=float(self._base_s[place] / count),
            candidate_s=float(self._candidate_s[place] / count),
        )

    def _by_quantile(self, kind: str, values: Floats) -> list[Part]:
        known = values[~np.isnan(values)]
        if not known.size:
            return []
        edges = np.unique(np.quantile(known, np.linspace(0, 1, _BINS + 1), method="inverted_cdf"))
        if edges.size == 1:
            return []
        return [
            self._part(kind, f"{low:.0f} to {high:.0f}", _between(values, low, high, first=place == 0))
            for place, (low, high) in enumerate(pairwise(edges))
        ]

    def _part(self, kind: str, label: str, mask: Mask) -> Part:
        count = float(self._count[mask].sum())
        return Part(
            kind,
            label,
            int((self._count[mask] > 0).sum()),
            float(self._base_s[mask].sum()) / count if count else None,
            float(self._candidate_s[mask].sum()) / count if count else None,
        )


def largest(parts: Sequence[Part]) -> Part | None:
    """The part whose latency grew most, as a ratio."""
    known = [part for part in parts if part.ratio is not None]
    return max(known, key=lambda part: part.ratio or 0.0, default=None)


def _between(values: Floats, low: float, high: float, *, first: bool) -> Mask:
    above = values >= low if first else values > low
    return np.asarray(above & (values <= high), dtype=bool)


def _whole(value: float) -> int | None:
    return None if np.isnan(value) else int(value)
