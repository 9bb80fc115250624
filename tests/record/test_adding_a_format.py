"""The page on adding a format: its examples are formats as they stand, and its table names all that there are."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from loadgen.record.formats.catalog import FORMATS
from support.logs import counts, recorded, rows

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall((DOCS / "adding-a-format.md").read_text(encoding="utf-8"))
JSON_LINE, TEXT_LINE = (text for kind, text in BLOCKS if kind in ("", "json") and "2026" in text)


def example(number: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The names that the page's example at this place defines."""
    module = ModuleType(f"example_{number}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec([text for kind, text in BLOCKS if kind == "python"][number], module.__dict__)
    return module.__dict__


@pytest.mark.parametrize(
    ("number", "name", "line", "column", "lengths"),
    [
        (0, "DemoFormat", JSON_LINE, "tokens", (402, 51)),
        (1, "DemoTextFormat", TEXT_LINE, "bytes", (402, 5124)),
    ],
)
def test_the_examples_work_as_they_stand(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    name: str,
    line: str,
    column: str,
    lengths: tuple[int, int],
) -> None:
    maker = example(number, monkeypatch)[name]
    known = dict(FORMATS)
    monkeypatch.setattr("loadgen.record.formats.catalog.FORMATS", {"demo": maker, **known})
    recording = recorded(tmp_path, line + line.replace("POST", "GET") + "broken\n")
    assert recording.fidelity.format_name == "demo"
    assert counts(recording) == (1, 1, 1)
    (row,) = rows(recording)
    assert row["unix_ns"] == 1_792_889_998_201_000_000
    assert (row["duration_ns"], row["status"], row["endpoint"]) == (1_503_000_000, 200, "/v1/chat")
    assert (row[f"input_{column}"], row[f"output_{column}"]) == lengths
    # No other format claims the lines.
    monkeypatch.setattr("loadgen.record.formats.catalog.FORMATS", {**known, "demo": maker})
    assert not any(
        kind.looks_like([line.strip().encode()])
        for other, kind in known.items()
        if other not in ("jsonl", "logfmt", "csv")
    )


def test_every_format_stands_in_the_table() -> None:
    page = (DOCS / "recording.md").read_text(encoding="utf-8")
    named = {
        name.strip()
        for cell in re.findall(r"^\| ([a-z0-9, -]+) \|", page, re.MULTILINE)
        for name in cell.split(",")
    }
    assert set(FORMATS) <= named
