"""Gates: what they read, and when they are broken."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from loadgen.compare.cell import Cell
from loadgen.compare.gate import Gate, GateState, exit_code, parse_gate, read_gates
from loadgen.errors import ExitCode, UsageError

NAN = float("nan")


@pytest.mark.parametrize(
    ("text", "cell", "side", "bound"),
    [
        ("ttft p99 > +5%", Cell("ttft", "p99"), ">", math.log(1.05)),
        ("ttft p99>5%", Cell("ttft", "p99"), ">", math.log(1.05)),
        ("latency mean @peak-1 > +12.5%", Cell("latency", "mean", "peak-1"), ">", math.log(1.125)),
        ("served_rate < -10%", Cell("served_rate", None), "<", math.log(0.9)),
        ("goodput < -1%", Cell("goodput", None), "<", -0.01),
        ("error_rate > +0.5%", Cell("error_rate", None), ">", 0.005),
    ],
)
def test_a_gate_names_a_cell_and_a_change(text: str, cell: Cell, side: str, bound: float) -> None:
    gate = parse_gate(text)
    assert (gate.cell, gate.side) == (cell, side)
    assert gate.bound == pytest.approx(bound)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ttft > +5%", "which value of ttft"),
        ("goodput p99 < -1%", "goodput is one value"),
        ("ttft p99 > 5", "no gate"),
        ("ttft p99 > 5ms", "no gate"),
        ("speed p99 > 5%", "speed is not compared"),
        ("lateness p99 > 5%", "lateness is not compared"),
        ("ttft p99 < -100%", "nothing falls by"),
    ],
)
def test_what_is_no_gate_is_told_with_the_option(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parse_gate(text)
    assert "--fail-on" in caught.value.message


@pytest.mark.parametrize(
    ("side", "bound", "low", "high", "state"),
    [
        (">", 0.05, 0.06, 0.20, "broken"),
        (">", 0.05, -0.10, 0.05, "held"),
        (">", 0.05, 0.00, 0.20, "undecided"),
        (">", 0.05, 0.05, 0.20, "undecided"),  # touches the bound
        ("<", -0.01, -0.20, -0.02, "broken"),
        ("<", -0.01, -0.01, 0.30, "held"),
        ("<", -0.01, -0.02, 0.30, "undecided"),
        (">", 0.05, NAN, NAN, "undecided"),
    ],
)
def test_a_gate_is_broken_only_beyond_doubt(
    side: str, bound: float, low: float, high: float, state: str
) -> None:
    assert Gate("", Cell("ttft", "p99"), side, bound).state(low, high) == state


def test_one_broken_gate_outweighs_what_cannot_be_told() -> None:
    held, broken, undecided = GateState.HELD, GateState.BROKEN, GateState.UNDECIDED
    assert exit_code([held, undecided, broken]) is ExitCode.LIMIT_BROKEN
    assert exit_code([held, undecided]) is ExitCode.INCONCLUSIVE
    assert exit_code([held]) is ExitCode.OK


def test_gates_come_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "gates.toml"
    path.write_text('fail_on = ["ttft p99 > +5%", "goodput < -1%"]')
    assert [gate.text for gate in read_gates(path)] == ["ttft p99 > +5%", "goodput < -1%"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fail_on = [", "cannot be read as TOML"),
        ("", "has no gates"),
        ("fail_on = []", "has no gates"),
        ("fail_on = [1]", "has no gates"),
        ('fail-on = ["ttft p99 > +5%"]', "no setting 'fail-on'"),
        ('fail_on = ["ttft > +5%"]', "which value"),
    ],
)
def test_a_file_without_gates_is_told_by_its_name(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "gates.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        read_gates(path)
    assert "gates.toml" in caught.value.message
