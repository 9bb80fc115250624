"""A comparison as JUnit XML: a test case a gate, or a deciding figure where there are no gates."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from loadgen.compare import words
from loadgen.compare.comparison import Comparison
from loadgen.compare.gate import GateState
from loadgen.compare.verdict import Verdict


def as_junit(comparison: Comparison) -> str:
    """Worse or broken is a failure; what cannot be told is skipped, with the reason."""
    suite = ET.Element("testsuite", name="loadgen compare")
    counts = {"failures": 0, "skipped": 0}
    # name, what was found, whether it failed, whether it is open
    cases = [
        (
            one.gate.text,
            words.gate_words(one),
            one.state is GateState.BROKEN,
            one.state is GateState.UNDECIDED,
        )
        for one in comparison.gates
    ] or [
        (
            one.cell.text,
            " ".join(words.row(one)[1:]),
            one.verdict is Verdict.WORSE,
            one.verdict is Verdict.INCONCLUSIVE,
        )
        for one in comparison.deciding
    ]
    for name, text, is_failure, is_open in cases:
        case = ET.SubElement(suite, "testcase", classname="loadgen.compare", name=_clean(name))
        if is_failure and not comparison.is_weak:
            counts["failures"] += 1
            ET.SubElement(case, "failure", message=_clean(text))
        elif is_open or comparison.is_weak:
            counts["skipped"] += 1
            reason = "; ".join(comparison.weak)
            ET.SubElement(case, "skipped", message=_clean(f"{text} {reason}".strip()))
    suite.set("tests", str(len(cases)))
    for name, count in counts.items():
        suite.set(name, str(count))
    suite.set("errors", "0")
    ET.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _clean(text: str) -> str:
    """Without the control characters that XML has no place for."""
    return "".join(character for character in text if character >= " " or character in "\t\n")
