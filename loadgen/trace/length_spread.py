"""LengthSpread: how the lengths of a trace are spread, input and output over the same bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from loadgen.trace.schema import INPUT_COLUMNS, OUTPUT_COLUMNS
from loadgen.trace.trace import Trace

# Each edge is the one before it times this; the first that needs few enough bins is taken.
_RATIOS = (2, 4, 10)
_MAX_BINS = 14


@dataclass(frozen=True, slots=True)
class LengthSpread:
    """One column: shares of the requests whose length is known, one a bin."""

    column: str
    shares: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LengthSpreads:
    """bounds: bin k holds lengths from bounds[k] (inclusive) to bounds[k + 1] (exclusive). sides: input, output.

    Each side is the first of tokens, characters and bytes that any request knows; a side that none knows is left
    out.
    """

    bounds: tuple[int, ...]
    sides: tuple[LengthSpread, ...]


def length_spreads(trace: Trace) -> LengthSpreads | None:
    """The spread of both sides over common bins, in equal ratios; None where no length is known."""
    columns = drawn_columns(trace)
    if not columns:
        return None
    known = [known_lengths(trace, column) for column in columns]
    bounds = _bounds(min(int(one.min()) for one in known), max(int(one.max()) for one in known), known)
    sides = tuple(
        LengthSpread(column, tuple((np.histogram(lengths, bounds)[0] / lengths.size).tolist()))
        for column, lengths in zip(columns, known, strict=True)
    )
    return LengthSpreads(tuple(bounds), sides)


def drawn_columns(trace: Trace) -> list[str]:
    """For input and for output, the first column that holds a value."""
    found = (
        next((name for name in names if trace.table.column(name).null_count < trace.num_rows), None)
        for names in (INPUT_COLUMNS, OUTPUT_COLUMNS)
    )
    return [name for name in found if name is not None]


def known_lengths(trace: Trace, column: str) -> npt.NDArray[np.int64]:
    """The lengths that are not null, in the order of the requests."""
    return np.asarray(trace.table.column(column).drop_null().to_numpy(), dtype=np.int64)


def _bounds(least: int, most: int, known: Sequence[npt.NDArray[np.int64]]) -> list[int]:
    # A length of 0 has no place on a scale of ratios: it lies in a bin below.
    zero = [0] if least == 0 else []
    if zero:
        least = min((int(one[one > 0].min()) for one in known if one.any()), default=1)
    bounds: list[int] = []
    for ratio in _RATIOS:
        start = 1
        while start * ratio <= least:
            start *= ratio
        bounds = [*zero, start]
        while bounds[-1] <= most:
            bounds.append(bounds[-1] * ratio)
        if len(bounds) - 1 <= _MAX_BINS:
            break
    return bounds
