"""Steps: every forward pass of a simulation, kept as stretches of like ones, unrolled when they are asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Stretches:
    """Decode steps of one batch in stretches within which nobody joins or leaves it.

    Step m (0, 1 ..) of a stretch ends at first + m * every + growth * m (m - 1) / 2 ns: each is longer than the one
    before by the positions that its rows have added. One value a stretch, in order of time.
    """

    first_ns: Numbers
    every_ns: Numbers
    growth_ns: Numbers
    count: Numbers
    rows: Numbers
    useful: Numbers
    busy_ns: Numbers

    @classmethod
    def of(cls, values: list[int]) -> Stretches:
        """values: those of one behind those of the other, each in the order of the fields."""
        return cls(*_columns(values, 7))

    def ends_ns(self) -> Numbers:
        """When each step ended: int64, one value a step."""
        counts = self.count
        total = int(counts.sum())
        step = np.arange(total, dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
        ends = np.repeat(self.first_ns, counts)
        ends += step * np.repeat(self.every_ns, counts)
        if self.growth_ns.any():
            ends += np.repeat(self.growth_ns, counts) * (step * (step - 1) // 2)
        return ends


def steps_until(length_ns: int, total_ns: int, growth_ns: int) -> int:
    """The least number of steps (1 or more) that last `length_ns` or longer: n total + growth n (n - 1) / 2."""
    if length_ns <= total_ns:
        return 1
    if not growth_ns:
        return -(-length_ns // total_ns)
    half = growth_ns / 2
    linear = total_ns - half
    steps = int((math.sqrt(linear * linear + 4 * half * length_ns) - linear) / growth_ns)
    while steps > 1 and steps * total_ns + growth_ns * (steps * (steps - 1) // 2) >= length_ns:
        steps -= 1
    while steps * total_ns + growth_ns * (steps * (steps - 1) // 2) < length_ns:
        steps += 1
    return max(1, steps)


@dataclass(frozen=True, slots=True)
class Prefills:
    """Passes over new prompts. One value a pass, in order of time."""

    start_ns: Numbers
    end_ns: Numbers
    rows: Numbers

    @classmethod
    def of(cls, values: list[int]) -> Prefills:
        """values: those of one behind those of the other, each in the order of the fields."""
        return cls(*_columns(values, 3))


def _columns(values: list[int], width: int) -> Numbers:
    """int64 (width, values / width)."""
    return np.ascontiguousarray(np.asarray(values, dtype=np.int64).reshape(-1, width).T)


@dataclass(frozen=True, slots=True)
class Counters:
    """What the server's counters would have read at moments: rows computed, useful ones, seconds busy."""

    moments_ns: Numbers
    rows: npt.NDArray[np.float64]
    useful_rows: npt.NDArray[np.float64]
    busy_s: npt.NDArray[np.float64]


def counters_at(stretches: list[Stretches], prefills: Prefills, moments_ns: Numbers) -> Counters:
    """The counters at `moments_ns`; within a stretch they grow evenly."""
    rows = useful = busy = np.zeros(moments_ns.size)
    parts: list[tuple[Numbers, Numbers, Numbers, Numbers, Numbers]] = []
    for one in stretches:
        count, first, every = one.count, one.first_ns, one.every_ns
        last = first + (count - 1) * every + one.growth_ns * ((count - 1) * (count - 2) // 2)
        # Where batches take turns, steps of others lie within a step's time: no matter here.
        parts.append((first - every, last, one.rows * count, one.useful * count, one.busy_ns))
    start, end = prefills.start_ns, prefills.end_ns
    parts.append((start, end, prefills.rows, prefills.rows, end - start))
    for begins, ends, *amounts in parts:
        rows, useful, busy = (
            total + _grown(begins, ends, amount, moments_ns)
            for total, amount in zip((rows, useful, busy), amounts, strict=True)
        )
    return Counters(moments_ns, rows, useful, busy / 1e9)


def _grown(begins: Numbers, ends: Numbers, amounts: Numbers, moments_ns: Numbers) -> npt.NDArray[np.float64]:
    """The sum of amounts that grow evenly from their begin to their end, at each moment. One after the other."""
    if not begins.size:
        return np.zeros(moments_ns.size)
    begins = np.maximum(begins, np.concatenate([begins[:1], ends[:-1]]))
    sums = np.cumsum(amounts)
    edges = np.column_stack([begins, np.maximum(ends, begins)]).ravel()
    values = np.column_stack([np.concatenate([[0], sums[:-1]]), sums]).ravel()
    return np.asarray(np.interp(moments_ns, edges, values), dtype=np.float64)
