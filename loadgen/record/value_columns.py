"""Columns of values as JSON and CSV have them -> Arrow columns, whole columns at a time where they are of one kind.

What does not fit is read value by value by the rules of `fields`, so that a column means the same either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.record.fields import (
    MAX_COUNT,
    count_or_none,
    duration_ns_or_none,
    name_or_none,
    session_or_none,
    status_or_none,
)
from loadgen.trace.moments import UNIT_NS

Values = Sequence[Any]
# Why a row is malformed, by its place in the column.
Faults = dict[int, str]

_INTEGERS = frozenset({int, type(None)})
_NUMBERS = frozenset({int, float, type(None)})
_TEXTS = frozenset({str, type(None)})
_MAX_NAME_IN_COLUMN = 200
_MAX_EXACT_SECONDS = 4_000_000
_ENOUGH_TO_TELL = 4096
_LARGEST_ROUNDING_US = 0.3


def kinds(values: Values) -> frozenset[type]:
    """The types of the values."""
    return frozenset(map(type, values))


def counts(values: Values) -> tuple[pa.Array, Faults]:
    """int32 of lengths, null where missing. See fields.count_or_none."""
    if kinds(values) <= _INTEGERS:
        try:
            array = pa.array(values, pa.int32())
        except (pa.ArrowInvalid, OverflowError):
            return _one_by_one(values, count_or_none, pa.int32())
        lowest = pc.min(array).as_py()
        if lowest is None or (lowest >= 0 and pc.max(array).as_py() <= MAX_COUNT):
            return array, {}
    return _one_by_one(values, count_or_none, pa.int32())


def durations_ns(values: Values, unit_ns: int) -> tuple[pa.Array, Faults]:
    """int64 ns, null where missing. See fields.duration_ns_or_none."""
    found = kinds(values)
    if unit_ns and found <= _INTEGERS:
        try:
            array = pa.array(values, pa.int64())
            lowest, highest = pc.min(array).as_py(), pc.max(array).as_py()
            if lowest is None or (lowest >= 0 and highest < 2**62 // unit_ns):
                return pc.multiply(array, unit_ns), {}
        except (pa.ArrowInvalid, OverflowError):
            pass
    elif unit_ns and found <= _NUMBERS:
        numbers = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
        missing = np.array([value is None for value in values])
        known = numbers[~missing]
        # Up to 46 days a double holds a duration to less than 1 ns.
        if known.size == 0 or (known.min() >= 0 and known.max() * unit_ns < _MAX_EXACT_SECONDS * 1e9):
            ns = np.rint(np.where(missing, 0, numbers) * unit_ns).astype(np.int64)
            return pa.array(ns, mask=missing), {}
    elif unit_ns and found == {str}:
        ns_of_texts = decimal_ns(pa.array(values, pa.string()), unit_ns)
        if ns_of_texts is not None and (ns_of_texts.size == 0 or ns_of_texts.min() >= 0):
            return pa.array(ns_of_texts), {}
    return _one_by_one(values, lambda value: duration_ns_or_none(value, unit_ns), pa.int64())


def names(values: Values) -> pa.DictionaryArray:
    """dictionary<int32, string> of short names, null for anything that is no text. See fields.name_or_none."""
    if kinds(values) <= _TEXTS:
        coded = pa.array(values, pa.string()).dictionary_encode()
        kept = [name_or_none(name) for name in coded.dictionary.to_pylist()]
        if all(len(name or " ") < _MAX_NAME_IN_COLUMN for name in kept):
            return recoded(coded, kept)
    return pa.array([name_or_none(value) for value in values], pa.string()).dictionary_encode()


def statuses(values: Values) -> pa.Array:
    """int16 of HTTP status codes, null for anything else. See fields.status_or_none."""
    if kinds(values) <= _INTEGERS and all(-1 < value < 1000 for value in set(values) - {None}):
        return pa.array(values, pa.int16())
    return pa.array([status_or_none(value) for value in values], pa.int16())


def sessions(values: Values) -> pa.Array:
    """string of the source's own ids. See fields.session_or_none."""
    if kinds(values) <= _TEXTS:
        return pa.array(values, pa.string())
    return pa.array([session_or_none(value) for value in values], pa.string())


def flags(values: Values) -> pa.Array:
    """bool, null for anything else."""
    return pa.array([value if isinstance(value, bool) else None for value in values], pa.bool_())


def recoded(coded: pa.DictionaryArray, replaced: Sequence[str | None]) -> pa.DictionaryArray:
    """`coded` with other values in its dictionary, some of them equal or missing."""
    numbers: dict[str, int] = {}
    of_code = [None if name is None else numbers.setdefault(name, len(numbers)) for name in replaced]
    indices = pa.array(of_code, pa.int32()).take(coded.indices)
    return pa.DictionaryArray.from_arrays(indices, pa.array(list(numbers), pa.string()))


def decimal_ns(texts: pa.Array, unit_ns: int) -> npt.NDArray[np.int64] | None:
    """int64 ns of decimal numbers of a unit of `unit_ns` (a power of ten), exact; None if one is none.

    texts: strings without nulls. A number with digits below 1 ns counts as none: it is for another to cut it.
    """
    scale = len(str(unit_ns)) - 1
    if not len(texts):
        return np.empty(0, dtype=np.int64)
    try:
        decimals = texts.cast(pa.decimal128(19 + scale, scale))
    except pa.ArrowInvalid:
        return None
    words = np.frombuffer(decimals.buffers()[1], dtype="<i8")[2 * decimals.offset :].reshape(-1, 2)
    low, high = words[: len(texts), 0], words[: len(texts), 1]
    if np.any(high != low >> 63) or np.any(np.abs(low) >= 2**62):
        return None
    return low.astype(np.int64)


def zoned_ns(texts: pa.Array) -> npt.NDArray[np.int64] | None:
    """Unix ns of ISO 8601 stamps with seconds and a zone of their own, up to 9 fraction digits; or None."""
    return _stamps_ns(texts, pa.timestamp("ns", "UTC"))


def local_ns(texts: pa.Array) -> npt.NDArray[np.int64] | None:
    """ns since 1970 on their own calendar of ISO 8601 stamps with seconds and without a zone; or None."""
    return _stamps_ns(texts, pa.timestamp("ns"))


def _stamps_ns(texts: pa.Array, stamp_type: pa.DataType) -> npt.NDArray[np.int64] | None:
    if not len(texts):
        return np.empty(0, dtype=np.int64)
    try:
        stamps = texts.cast(stamp_type)
    except pa.ArrowInvalid:
        return None
    # Arrow takes stamps without seconds, too; here they are none.
    if not pc.all(pc.equal(pc.utf8_slice_codeunits(texts, 16, 17), ":")).as_py():
        return None
    return np.asarray(stamps.cast(pa.int64()).to_numpy(), dtype=np.int64)


def _one_by_one(
    values: Values, read: Callable[[Any], int | None], column_type: pa.DataType
) -> tuple[pa.Array, Faults]:
    faults: Faults = {}
    found: list[int | None] = []
    for row, value in enumerate(values):
        try:
            found.append(read(value))
        except ValueError as exc:
            faults[row] = str(exc)
            found.append(None)
    return pa.array(found, column_type), faults


def unit_of_integers(lowest: int, highest: int) -> str | None:
    """The unit of epochs between `lowest` and `highest`, if it is the same for all; see moments.epoch_unit."""
    for unit, scale_ns in UNIT_NS.items():
        floor = 10**17 // scale_ns
        if floor <= lowest and highest < floor * 1000:
            return unit
    return None


def whole_micros(seconds: Values) -> npt.NDArray[np.int64] | None:
    """int64 us of epochs in seconds, where all were written with at most 6 decimals; None if some were not.

    A double near 2e9 is exact to 0.24 us: one value cannot tell whether a 7th digit was there, thousands can.
    """
    micros = np.array(seconds, dtype=np.float64) * 1e6
    whole = np.rint(micros)
    if micros.size < _ENOUGH_TO_TELL or np.abs(micros - whole).max() > _LARGEST_ROUNDING_US:
        return None
    return whole.astype(np.int64)
