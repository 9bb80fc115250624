"""What the pages say of metrics and columns is what the code has."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from loadgen.plan import schedule
from loadgen.replay import request_record
from loadgen.report.metric import METRICS
from loadgen.telemetry import server_metrics

ROOT = Path(__file__).parent.parent.parent


def test_the_metric_table_of_the_docs_is_that_of_the_code() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| `(.*?)` \| (.*?) \|$", page, re.MULTILINE)
    assert rows == [(m.name, m.unit, m.better, m.definition_id, m.definition) for m in METRICS]


def test_every_metric_has_an_id_of_its_own() -> None:
    assert len({metric.definition_id for metric in METRICS}) == len(METRICS)


@pytest.mark.parametrize(
    "schema",
    [request_record.SCHEMA, schedule.SCHEMA, server_metrics.SCHEMA],
    ids=["requests", "schedule", "telemetry"],
)
def test_every_column_is_described(schema: pa.Schema) -> None:
    page = (ROOT / "reports" / "README.md").read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", page))
    assert [name for name in schema.names if name not in words] == []
