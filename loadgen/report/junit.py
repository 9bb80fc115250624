"""A report as JUnit XML: a case for the run itself, one for its validity, one a limit and window."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from loadgen.errors import ExitCode
from loadgen.report import words
from loadgen.report.limit import LimitVerdict
from loadgen.report.measures import OVERALL
from loadgen.report.metric import BY_NAME
from loadgen.report.report import Report


def as_junit(report: Report) -> str:
    """What decides the exit code passes or fails; a limit broken within a window is skipped: it tells where."""
    suite = ET.Element("testsuite", name=f"loadgen {words.plain(str(report.facts.get('run_id')))}")
    counts = {"tests": 0, "failures": 0, "skipped": 0, "errors": 0}

    def case(name: str, kind: str | None, message: str) -> None:
        element = ET.SubElement(suite, "testcase", classname="loadgen.report", name=_clean(name))
        counts["tests"] += 1
        if kind is not None:
            ET.SubElement(element, kind, message=_clean(message))
            counts[{"failure": "failures", "error": "errors", "skipped": "skipped"}[kind]] += 1

    has_failed = report.exit_code is ExitCode.RUN_FAILED
    case("run", "error" if has_failed else None, f"{words.title(report)}; {words.counts(report)}")
    case("valid", None if report.validity.is_valid else "error", "; ".join(report.validity.reasons))
    for one in report.limits:
        kind = None if one.kept else "failure" if one.window == OVERALL else "skipped"
        case(_name(one), kind, f"{one.limit.text} in {one.window}: {_value(one)}")
    for name, count in counts.items():
        suite.set(name, str(count))
    ET.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _name(one: LimitVerdict) -> str:
    return one.limit.text if one.window == OVERALL else f"{one.limit.text} in {one.window}"


def _value(one: LimitVerdict) -> str:
    return words.in_unit(one.value, BY_NAME[one.limit.metric].unit)


def _clean(text: str) -> str:
    """Without the characters that XML has no place for."""
    return "".join(
        char
        for char in text
        if char in "\t\n"
        or "\x20" <= char <= "\ud7ff"
        or "\ue000" <= char <= "\ufffd"
        or char >= "\U00010000"
    )
