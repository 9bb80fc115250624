"""What is written of a comparison: for people, for a merge request, for a test report."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from loadgen.compare import words
from loadgen.compare.comparing import compare_runs
from loadgen.compare.comparison import Comparison, Terms
from loadgen.compare.gate import parse_gate
from loadgen.compare.junit import as_junit
from loadgen.compare.markdown import as_markdown
from loadgen.compare.terminal import render
from support import compared_runs as sides

HOSTILE = "1|2<b>*x*`\n\x1b[31m"


def compared(folder: Path, candidate_s: float, count: int = 4, **terms: Any) -> Comparison:
    def target(version: str) -> dict[str, Any]:
        return {"url": "http://h", "model": "m", "dialect": "chat", "facts": {"version": version}}

    base = [
        sides.run(folder, sides.rows(0.1 + n / 1e3), minute=2 * n, target=target("1")) for n in range(count)
    ]
    candidate = [
        sides.run(folder, sides.rows(candidate_s + n / 1e3), minute=2 * n + 1, target=target(HOSTILE))
        for n in range(count)
    ]
    return compare_runs(base, candidate, Terms(**terms))


def printed(comparison: Comparison) -> str:
    out = StringIO()
    render(comparison, Console(file=out, width=80, color_system=None))
    return out.getvalue()


def test_the_answer_stands_first_with_its_threshold_and_number_of_repeats(tmp_path: Path) -> None:
    lines = printed(compared(tmp_path, 0.2)).splitlines()
    assert lines[0].startswith("WORSE in latency mean, latency p50")
    assert lines[1].startswith("4 pairs of runs; false alarms 5 % over")


def test_one_run_a_side_is_marked_weak_and_told_what_to_do(tmp_path: Path) -> None:
    text = printed(compared(tmp_path, 0.2, count=1))
    assert text.startswith("INCONCLUSIVE: differs; evidence weak")
    assert "loadgen ab" in text
    assert text.count("too few runs to know the noise") == 1
    assert "WORSE" not in text


def test_lengths_that_no_trace_tells_are_left_out_of_what_grew_most(tmp_path: Path) -> None:
    comparison = compared(tmp_path, 0.2)
    twin = comparison.worst[0]
    lines = {
        given: printed(
            replace(comparison, worst=(replace(twin, input_tokens=given[0], output_tokens=given[1]),))
        )
        for given in ((None, None), (None, 2), (5, 2))
    }
    assert f"[{twin.window}]: " in lines[None, None]
    assert f"[{twin.window}] 2 out: " in lines[None, 2]
    assert f"[{twin.window}] 5 in, 2 out: " in lines[5, 2]


def test_nothing_that_a_target_says_becomes_an_escape_or_markup(tmp_path: Path) -> None:
    comparison = compared(tmp_path, 0.2)
    assert "\x1b" not in printed(comparison)
    page = as_markdown(comparison)
    assert "\x1b" not in page
    assert "<b>" not in page.replace("\\<b\\>", "")
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {7}


@pytest.mark.parametrize(
    ("gates", "counts"),
    [
        ((), ("6", "5")),
        (("latency p50 > +5%", "latency p50 > +300%", "error_rate > +0.1%"), ("3", "1")),
    ],
)
def test_junit_has_a_case_a_gate_or_a_deciding_figure(
    tmp_path: Path, gates: tuple[str, ...], counts: tuple[str, str]
) -> None:
    comparison = compared(tmp_path, 0.2, gates=tuple(parse_gate(text) for text in gates))
    suite = ET.fromstring(as_junit(comparison).split("\n", 1)[1])
    assert (suite.get("tests"), suite.get("failures")) == counts
    assert len(suite) == int(str(suite.get("tests")))


def test_weak_evidence_is_skipped_in_junit_never_failed(tmp_path: Path) -> None:
    suite = ET.fromstring(as_junit(compared(tmp_path, 0.9, count=1)).split("\n", 1)[1])
    assert suite.get("failures") == "0"
    assert suite.get("skipped") == suite.get("tests")


def test_a_comparison_that_is_open_says_how_many_more_pairs_would_decide(tmp_path: Path) -> None:
    text = words.more(compared(tmp_path, 0.1012, count=3))
    assert text is None or "more pair" in text
    assert words.more(compared(tmp_path / "b", 0.2)) is None
