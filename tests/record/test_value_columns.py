"""Whole columns mean what their values mean one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.errors import RecordError
from loadgen.record import fields, value_columns
from loadgen.record.stamp_reader import StampReader

ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "-", "null", "x", " 7 ", "7.0", "1.5", True, [], {}, -1, -0.5, 2**31, 2**70, 1e300, "9" * 30]
)
NUMBERS = st.integers(0, 10**6) | st.integers(0, 10**6).map(str) | st.floats(0, 1e6)
# Columns of one kind, mostly, and of all kinds.
COLUMNS = st.one_of(
    st.lists(st.integers(0, 10**6)),
    st.lists(st.none() | st.integers(-5, 10**6)),
    st.lists(st.integers(0, 10**6).map(str)),
    st.lists(st.floats(0, 1e6)),
    st.lists(st.decimals(0, 10**6, places=3).map(str)),
    st.lists(st.booleans()),
    st.lists(st.text(max_size=4) | st.none()),
    st.lists(NUMBERS | ODD),
)


def one_by_one(values: list[Any], read: Callable[[Any], Any]) -> tuple[list[Any], dict[int, str]]:
    found: list[Any] = []
    faults: dict[int, str] = {}
    for row, value in enumerate(values):
        try:
            found.append(read(value))
        except ValueError as exc:
            faults[row] = str(exc)
            found.append(None)
    return found, faults


@given(COLUMNS)
def test_counts(values: list[Any]) -> None:
    array, faults = value_columns.counts(values)
    assert (array.to_pylist(), faults) == one_by_one(values, fields.count_or_none)


@given(COLUMNS, st.sampled_from([1, 10**3, 10**6, 10**9]))
def test_durations(values: list[Any], unit_ns: int) -> None:
    array, faults = value_columns.durations_ns(values, unit_ns)
    expected, expected_faults = one_by_one(values, lambda value: fields.duration_ns_or_none(value, unit_ns))
    assert faults == expected_faults
    for found, wanted in zip(array.to_pylist(), expected, strict=True):
        # A double's digits below 1 ns are rounded in a column and cut one by one.
        assert found == wanted or abs(found - wanted) <= 1


@given(COLUMNS)
def test_names_statuses_sessions_and_flags(values: list[Any]) -> None:
    for read, whole in (
        (fields.name_or_none, value_columns.names),
        (fields.status_or_none, value_columns.statuses),
        (fields.session_or_none, value_columns.sessions),
        (lambda value: value if isinstance(value, bool) else None, value_columns.flags),
    ):
        found = whole(values).to_pylist()
        expected = [read(value) for value in values]
        if whole is value_columns.sessions:
            # No session is none, whether by null or by an empty id.
            found = [value or None for value in found]
        assert found == expected


def test_six_decimals_are_told_from_seven() -> None:
    rng = np.random.default_rng(1)
    micros = 1_792_890_000_000_000 + np.cumsum(rng.integers(0, 10**6, 5000))
    six = [json.loads(f"{value // 10**6}.{value % 10**6:06d}") for value in micros.tolist()]
    found = value_columns.whole_micros(pa.array(six))
    assert found is not None and found.tolist() == micros.tolist()
    seven = [json.loads(f"{value // 10**6}.{value % 10**6:06d}{value % 9 + 1}") for value in micros.tolist()]
    assert value_columns.whole_micros(pa.array(seven)) is None
    assert value_columns.whole_micros(pa.array(six[:100])) is None


def _in_units(unit_ns: int) -> Callable[[int], int]:
    return lambda ns: ns // unit_ns


EPOCH_NS = st.integers(1_700_000_000 * 10**9, 1_900_000_000 * 10**9)
STAMPS = st.one_of(
    *(st.lists(EPOCH_NS.map(_in_units(unit)), max_size=6) for unit in (1, 10**3, 10**6, 10**9)),
    st.lists(EPOCH_NS.map(lambda ns: f"{ns // 10**9}.{ns % 10**9:09d}"), max_size=6),
    st.lists(EPOCH_NS.map(lambda ns: str(ns // 10**6)), max_size=6),
    st.lists(EPOCH_NS.map(lambda ns: ns / 1e9), max_size=6),
    st.lists(
        st.sampled_from(
            ["2026-10-25T00:59:58Z", "2026-10-25T02:59:58.2+02:00", "2026-10-25 00:59:58.123456789+0000",
             "2026-10-25T00:59:60Z", "2026-10-25T00:59Z", "2026-10-25", "25/Oct/2026:02:59:58 +0200"]
        ),
        max_size=6,
    ),
    st.lists(st.sampled_from(["2026-10-25 00:59:58", "2026-10-25T02:30:00,5", "2026-10-25 03:00:00.25"])),
    st.lists(ODD | EPOCH_NS | st.just("2026-10-25T00:59:58Z"), max_size=6),
)  # fmt: skip


def read_stamps(reader: StampReader, values: list[Any], *, whole: bool) -> object:
    place_of = "line {}".format
    try:
        if whole:
            moments, faults = reader.column(values, place_of)
            return moments.tolist(), faults, reader.guessed_unit, reader.zone_used
        found, faults = one_by_one(
            list(enumerate(values)), lambda row: reader.unix_ns(row[1], place_of(row[0]))
        )
        return [moment or 0 for moment in found], faults, reader.guessed_unit, reader.zone_used
    except RecordError as error:
        return error.message


@pytest.mark.parametrize(
    ("unit", "zone"),
    [("auto", None), ("auto", "UTC"), ("auto", "Europe/Berlin"), ("ms", None), ("iso", "+02:00")],
)
@given(STAMPS)
def test_stamps(unit: str, zone: str | None, values: list[Any]) -> None:
    whole = read_stamps(StampReader(unit, zone), values, whole=True)
    assert whole == read_stamps(StampReader(unit, zone), values, whole=False)
