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

_MAX_EXACT_SECONDS = 4_000_000
_ENOUGH_TO_TELL = 4096
_LARGEST_ROUNDING_US = 0.3


def of_one_kind(values: Values) -> pa.Array | None:
    """`values` as int64, double, string, bool or null, null for None; None if they are of several kinds."""
    try:
        array = pa.array(values)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return None
    if pa.types.is_floating(array.type):
        # Arrow takes true for 1.0.
        return None if bool in set(map(type, values)) else array
    known = (pa.types.is_int64, pa.types.is_string, pa.types.is_boolean, pa.types.is_null)
    return array if any(is_kind(array.type) for is_kind in known) else None


def counts(values: Values) -> tuple[pa.Array, Faults]:
    """int32 of lengths, null where missing. See fields.count_or_none."""
    array = of_one_kind(values)
    if array is not None and (pa.types.is_int64(array.type) or pa.types.is_null(array.type)):
        bounds = pc.min_max(array.cast(pa.int64())).as_py()
        if bounds["min"] is None or (bounds["min"] >= 0 and bounds["max"] <= MAX_COUNT):
            return array.cast(pa.int32()), {}
    return _one_by_one(values, count_or_none, pa.int32())


def durations_ns(values: Values, unit_ns: int) -> tuple[pa.Array, Faults]:
    """int64 ns, null where missing. See fields.duration_ns_or_none."""
    array = of_one_kind(values) if unit_ns else None
    whole = None if array is None else _whole_durations_ns(array, unit_ns)
    if whole is not None:
        return whole, {}
    return _one_by_one(values, lambda value: duration_ns_or_none(value, unit_ns), pa.int64())


def _whole_durations_ns(array: pa.Array, unit_ns: int) -> pa.Array | None:
    if pa.types.is_null(array.type):
        return array.cast(pa.int64())
    if pa.types.is_string(array.type):
        if array.null_count:
            return None
        ns = decimal_ns(array, unit_ns)
        return pa.array(ns) if ns is not None and (not ns.size or ns.min() >= 0) else None
    if pa.types.is_boolean(array.type):
        return None
    bounds = pc.min_max(array).as_py()
    # Up to 46 days a double holds a duration to less than 1 ns.
    limit = 2**62 // unit_ns if pa.types.is_int64(array.type) else _MAX_EXACT_SECONDS * 10**9 // unit_ns
    if not 0 <= bounds["min"] <= bounds["max"] < limit:
        return None
    return pc.round(pc.multiply(array, unit_ns)).cast(pa.int64())


def names(values: Values) -> pa.DictionaryArray:
    """dictionary<int32, string> of short names, null for anything that is no text. See fields.name_or_none."""
    array = of_one_kind(values)
    if array is None or not pa.types.is_string(array.type):
        array = pa.array([name_or_none(value) for value in values], pa.string())
    coded = array.dictionary_encode()
    return recoded(coded, [name_or_none(name) for name in coded.dictionary.to_pylist()])


def statuses(values: Values) -> pa.Array:
    """int16 of HTTP status codes, null for anything else. See fields.status_or_none."""
    array = of_one_kind(values)
    if array is not None and pa.types.is_int64(array.type):
        bounds = pc.min_max(array).as_py()
        if bounds["min"] is not None and 0 <= bounds["min"] <= bounds["max"] <= 999:
            return array.cast(pa.int16())
    return pa.array([status_or_none(value) for value in values], pa.int16())


def sessions(values: Values) -> pa.Array:
    """string of the source's own ids. See fields.session_or_none."""
    array = of_one_kind(values)
    if array is not None and pa.types.is_string(array.type):
        return array
    return pa.array([session_or_none(value) for value in values], pa.string())


def flags(values: Values) -> pa.Array:
    """bool, null for anything else."""
    array = of_one_kind(values)
    if array is not None and pa.types.is_boolean(array.type):
        return array
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


def whole_micros(seconds: pa.Array) -> npt.NDArray[np.int64] | None:
    """int64 us of epochs in seconds (double) that were all written with at most 6 decimals; None if some were not.

    A double near 2e9 is exact to 0.24 us: one value cannot tell whether a 7th digit was there, thousands can.
    """
    micros = seconds.to_numpy() * 1e6
    whole = np.rint(micros)
    if micros.size < _ENOUGH_TO_TELL or np.abs(micros - whole).max() > _LARGEST_ROUNDING_US:
        return None
    return np.asarray(whole, dtype=np.int64)
