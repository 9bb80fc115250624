"""Columns of decimal numbers as bytes -> integers, a whole batch at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.trace.moments import number_ns


def nanoseconds(values: Sequence[bytes], unit_ns: int) -> npt.NDArray[np.int64]:
    """int64 ns of decimal numbers of a unit of `unit_ns` (a power of ten); exact.

    Raises ValueError if one is no number.
    """
    if not values:
        return np.empty(0, dtype=np.int64)
    decimals = _common_decimals(values)
    step_ns = unit_ns // 10**decimals if decimals is not None and decimals <= 9 else 0
    if step_ns:
        try:
            texts = pa.array(values, pa.string())
            digits = pc.replace_substring(texts, ".", "", max_replacements=1) if decimals else texts
            return np.asarray(digits.cast(pa.int64()).to_numpy() * step_ns, dtype=np.int64)
        except (pa.ArrowInvalid, UnicodeDecodeError):
            pass
    return np.array([number_ns(value.decode("latin-1"), unit_ns) for value in values], dtype=np.int64)


def _common_decimals(values: Sequence[bytes]) -> int | None:
    """How many digits each value has behind its point, if all have the same; else None."""
    first = values[0]
    point = first.find(b".")
    decimals = len(first) - point - 1 if point >= 0 else 0
    if decimals:
        behind = -decimals - 1
        same = all(value[behind : behind + 1] == b"." for value in values)
    else:
        same = not any(b"." in value for value in values)
    return decimals if same else None


def counts(values: Sequence[bytes]) -> pa.Array:
    """int32 of whole numbers; `-` and an empty cell become null. Raises ValueError if one is no number."""
    try:
        texts = pa.array(values, pa.string())
        missing = pc.is_in(texts, value_set=pa.array(["-", ""]))
        return pc.if_else(missing, pa.scalar(None, pa.string()), texts).cast(pa.int32())
    except (pa.ArrowInvalid, UnicodeDecodeError) as exc:
        raise ValueError(str(exc).splitlines()[0]) from exc
