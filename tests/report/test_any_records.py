"""Whatever a run's records hold and lack: strict JSON, a whole sum, and 80 columns of plain text."""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from loadgen.plan.schedule import Window
from loadgen.replay.request_record import SCHEMA, Outcome
from loadgen.report.goodput import Bound
from loadgen.report.limit import parse_limit
from loadgen.report.report import Report, build_report
from loadgen.report.stored import read_report
from loadgen.report.terminal import render
from loadgen.report.validity import Thresholds
from support.runs import Row, ns, written

WINDOWS = (Window("baseline", 0, ns(6)), Window("peak-1", ns(6), ns(7)), Window("recovery-1", ns(7), ns(10)))
LIMITS = [parse_limit("ttft p99 < 800ms"), parse_limit("goodput >= 95%"), parse_limit("recovery_s < 1s")]


def value(field: pa.Field) -> st.SearchStrategy[Any]:
    """A value as the field may hold, or none."""
    if field.name == "chunk_gap_us":
        some: st.SearchStrategy[Any] = st.lists(st.integers(0, 10**6), max_size=4)
    elif field.name == "error":
        some = st.text(max_size=120)
    elif pa.types.is_dictionary(field.type):
        some = st.sampled_from(["stop", "length"])
    elif pa.types.is_boolean(field.type):
        some = st.booleans()
    elif pa.types.is_floating(field.type):
        some = st.floats(0, 64, width=32)
    elif field.name.endswith("_ns"):
        some = st.integers(0, ns(12))
    else:
        some = st.integers(0, 100)
    return st.none() | some


OPTIONAL = {field.name: value(field) for field in SCHEMA if field.nullable}
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "planned_ns": st.integers(0, ns(10) - 1),
            "outcome": st.sampled_from([outcome.value for outcome in Outcome]),
            "window": st.sampled_from([window.label for window in WINDOWS]),
            **OPTIONAL,
        }
    ),
    min_size=1,
    max_size=6,
)


def built(rows: list[Row], **more: Any) -> Report:
    with tempfile.TemporaryDirectory() as folder:
        run = written(Path(folder), rows, windows=WINDOWS, **more)
        return build_report(run, Thresholds(), LIMITS, [Bound("ttft", 0.8)])


@settings(max_examples=25, deadline=None)
@given(ROWS, st.sampled_from(["complete", "interrupted", "running"]), st.none() | st.integers(0, ns(12)))
def test_any_records_make_a_report(rows: list[Row], status: str, run_end_ns: int | None) -> None:
    # F81: nothing that a record may lack becomes NaN.
    lost = 3 if status == "running" else 0
    report = built(rows, status=status, run_end_ns=run_end_ns, planned=len(rows) + lost)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        path.write_text(json.dumps(report.as_json(), allow_nan=False), encoding="utf-8")
        stored = read_report(path)
    requests = stored.document["requests"]
    assert requests["planned"] == len(rows) + lost == sum(stored.outcomes.values())
    assert requests["planned"] == requests["sent"] + requests["not_sent"] + requests["unrecorded"]
    assert requests["unrecorded"] == lost + sum(row["outcome"] == "unrecorded" for row in rows)
    outside = ("not_sent", "unrecorded")
    assert requests["sent"] == sum(n for name, n in stored.outcomes.items() if name not in outside)
    page = io.StringIO()
    render(report, Console(file=page, width=80, highlight=False, emoji=False))
    lines = page.getvalue().splitlines()
    assert "\x1b" not in page.getvalue()
    assert max(len(line) for line in lines) <= 80


@pytest.mark.parametrize("column", [name for name in OPTIONAL if name != "error"])
def test_a_column_that_no_record_fills_is_no_crash(column: str) -> None:
    full = {
        name: 5 if name.endswith(("_us", "_ns", "tokens", "chunks", "coalesced", "planned")) else None
        for name in OPTIONAL
    }
    row = {
        "planned_ns": 1,
        "outcome": "ok",
        "window": "baseline",
        **full,
        "chunk_gap_us": [1] * 4,
        column: None,
    }
    report = built([row] * 30)
    json.dumps(report.as_json(), allow_nan=False)
    assert report.as_json()["outcomes"]["ok"]["count"] == 30
