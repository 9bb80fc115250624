"""Gate: a change that fails a release, such as `ttft p99 > +5%`, and whether it happened."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from loadgen.compare.cell import OF_COUNTS, OF_REPORTS, OF_REQUESTS, PERCENTILES, Cell
from loadgen.errors import ExitCode, UsageError
from loadgen.report.measures import OVERALL

_FORM = re.compile(
    r"^\s*(?P<metric>\w+)(?:\s+(?P<statistic>mean|p50|p90|p95|p99))?(?:\s+@(?P<window>[\w-]+))?"
    r"\s*(?P<side>[<>])\s*(?P<bound>[+-]?\d+(?:\.\d+)?)\s*%\s*$"
)
_REQUEST_METRICS = (*(name for name, _ in OF_REQUESTS), "service_ttft", "ttfat")


class GateState(StrEnum):
    """broken, held: the interval of the change lies wholly beyond the bound, or wholly within. Else undecided."""

    HELD = "held"
    BROKEN = "broken"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Gate:
    """Fails if the cell's change is above (side >) or below (side <) bound.

    bound: in the scale of the cell's change: a log ratio, or a difference of shares.
    """

    text: str
    cell: Cell
    side: str
    bound: float

    def state(self, low: float, high: float) -> GateState:
        """Of an interval of the change; unknown bounds (NaN) leave it undecided."""
        if self.side == "<":
            low, high, bound = -high, -low, -self.bound
        else:
            bound = self.bound
        if low > bound:
            return GateState.BROKEN
        return GateState.HELD if high <= bound else GateState.UNDECIDED


def exit_code(states: list[GateState]) -> ExitCode:
    """1 if any gate is broken, else 3 if any is undecided, else 0."""
    if GateState.BROKEN in states:
        return ExitCode.LIMIT_BROKEN
    return ExitCode.INCONCLUSIVE if GateState.UNDECIDED in states else ExitCode.OK


def parse_gate(text: str, *, source: str = "--fail-on") -> Gate:
    """`METRIC [STATISTIC] [@WINDOW] > +5%`. Of shares (error_rate, goodput) the bound is in percentage points.

    Raises UsageError naming `source`.
    """
    match = _FORM.match(text)
    if match is None:
        raise UsageError(
            f"{source} {text!r} is no gate",
            hint="write 'ttft p99 > +5%', 'goodput < -1%' or 'latency p99 @peak-1 > +10%'",
        )
    metric, statistic = match["metric"], match["statistic"]
    if metric not in (*_REQUEST_METRICS, *OF_COUNTS, *OF_REPORTS):
        raise UsageError(
            f"{source} {text!r}: {metric} is not compared",
            hint=f"one of: {', '.join((*_REQUEST_METRICS, *OF_COUNTS, *OF_REPORTS))}",
        )
    if (metric in _REQUEST_METRICS) != (statistic is not None):
        raise UsageError(
            f"{source} {text!r}: "
            + (f"which value of {metric}?" if statistic is None else f"{metric} is one value"),
            hint=f"write '{metric} p99 > +5%', with one of mean, {', '.join(PERCENTILES)}"
            if statistic is None
            else f"write '{metric} {match['side']} {match['bound']}%'",
        )
    cell = Cell(metric, statistic, match["window"] or OVERALL)
    share = float(match["bound"]) / 100
    if cell.is_ratio and share <= -1:
        raise UsageError(f"{source} {text!r}: nothing falls by {-share:.0%}", hint="give less than 100%")
    return Gate(text.strip(), cell, match["side"], math.log1p(share) if cell.is_ratio else share)


def read_gates(path: Path) -> list[Gate]:
    """Gates of a TOML file: `fail_on = ["ttft p99 > +5%", "goodput < -1%"]`. Raises UsageError naming the file."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as exc:
        raise UsageError(f"{path}: cannot be read as TOML ({exc})") from exc
    lines = document.get("fail_on")
    if unknown := set(document) - {"fail_on"}:
        raise UsageError(
            f"{path}: no setting {sorted(unknown)[0]!r}", hint="a gate file has fail_on = [ .. ]"
        )
    if not isinstance(lines, list) or not lines or not all(isinstance(line, str) for line in lines):
        raise UsageError(f"{path}: has no gates", hint='write fail_on = ["ttft p99 > +5%", "goodput < -1%"]')
    return [parse_gate(line, source=str(path)) for line in lines]
