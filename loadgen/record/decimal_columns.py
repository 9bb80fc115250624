"""Columns of decimal numbers as bytes -> integers, a whole batch at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.record.value_columns import decimal_ns
from loadgen.trace.moments import number_ns

_EXACT_DIGITS = 15


def nanoseconds(values: pa.Array, unit_ns: int) -> npt.NDArray[np.int64]:
    """int64 ns of decimal numbers of a unit of `unit_ns` (a power of ten), cut below 1 ns.

    Raises ValueError if one is no number.
    """
    texts = _texts(values)
    moments_ns = _of_even_decimals(texts, unit_ns)
    if moments_ns is None:
        moments_ns = decimal_ns(texts, unit_ns)
    if moments_ns is not None:
        return moments_ns
    return np.array([number_ns(value.as_py().decode("latin-1"), unit_ns) for value in values], dtype=np.int64)


def _of_even_decimals(texts: pa.Array, unit_ns: int) -> npt.NDArray[np.int64] | None:
    """The same for numbers that have all as many decimals, and few digits; None for others."""
    points = pc.find_substring(texts, ".")
    lengths = pc.binary_length(texts)
    behind = pc.min_max(pc.subtract(lengths, points)).as_py()
    if behind["min"] is None or behind["min"] != behind["max"] or pc.min(points).as_py() < 0:
        return None
    step_ns, rest = divmod(unit_ns, 10 ** (behind["max"] - 1))
    if rest or pc.max(lengths).as_py() > _EXACT_DIGITS + 1:
        return None
    try:
        numbers = texts.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    # A double holds 15 digits, so that the nearest whole number is the one that was written.
    moments_ns: npt.NDArray[np.int64] = (
        np.rint(numbers * 10 ** (behind["max"] - 1)).astype(np.int64) * step_ns
    )
    return moments_ns


def counts(values: pa.Array) -> pa.Array:
    """int32 of whole numbers; `-` and an empty cell become null. Raises ValueError if one is no number."""
    texts = _texts(values)
    try:
        return texts.cast(pa.int32())
    except pa.ArrowInvalid:
        pass
    missing = pc.or_(pc.equal(texts, "-"), pc.equal(texts, ""))
    try:
        return pc.if_else(missing, pa.scalar(None, pa.string()), texts).cast(pa.int32())
    except pa.ArrowInvalid as exc:
        raise ValueError(str(exc).splitlines()[0]) from exc


def _texts(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid as exc:
        raise ValueError("no number") from exc
