"""RateCurve: how many requests a second when, told by points instead of a trace's own moments."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.errors import ScheduleError
from loadgen.plan.moments import LONGEST_S, Moments, to_ns

Floats = npt.NDArray[np.float64]

_HINT = "two points at least: time in seconds, ascending, and requests per second, 0 or more"
_FORMS = 'CSV lines of time,rate or JSON [{"time": 0, "rate": 5}, ...]'


@dataclass(frozen=True, slots=True)
class RateCurve:
    """Requests per second over time: straight lines between points; two points at one time make a step.

    points: (seconds from the start, requests per second), the first at 0.
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        times = [time_s for time_s, _ in self.points]
        if len(times) < 2 or times[0] != 0 or any(b < a for a, b in pairwise(times)):
            raise ScheduleError("the rate series has no times that ascend from 0", hint=_HINT)
        if not 0 < times[-1] <= LONGEST_S:
            raise ScheduleError(f"the rate series lasts {times[-1]:g} s", hint=_HINT)
        for _, rate_per_s in self.points:
            if not 0 <= rate_per_s < math.inf:
                raise ScheduleError(f"the rate series holds a rate of {rate_per_s:g}", hint=_HINT)
        if self.num_requests < 1:
            raise ScheduleError(
                f"the rates make {self.area:.3g} of a request", hint="raise them, or let them last longer"
            )

    @property
    def length_ns(self) -> int:
        return to_ns(self.points[-1][0])

    @property
    def area(self) -> float:
        """Requests by the curve, not rounded."""
        return float(self._knots()[2][-1])

    @property
    def num_requests(self) -> int:
        """Rounded half up."""
        return math.floor(self.area + 0.5)

    def moments(self, shares: Floats) -> Moments:
        """When each share (ascending, [0, 1)) of all requests has been sent: int64 ns, below the length."""
        times_s, rates, areas = self._knots()
        wanted = shares * areas[-1]
        # The last segment that begins at or below; those without requests are stepped over.
        segments = np.clip(np.searchsorted(areas, wanted, side="right") - 1, 0, times_s.size - 2)
        lengths_s = np.diff(times_s)[segments]
        rate = rates[segments]
        # Within a segment shorter than a ns nothing can be told apart; its slope would be beyond any number.
        slope = np.divide(
            rates[segments + 1] - rate, lengths_s, out=np.zeros_like(rate), where=lengths_s >= 1e-9
        )
        left = wanted - areas[segments]
        # rate * t + slope * t^2 / 2 = left, solved without a difference of near numbers.
        root = rate + np.sqrt(np.maximum(rate * rate + 2 * slope * left, 0))
        passed_s = np.divide(2 * left, root, out=np.zeros_like(left), where=root > 0)
        moments_s = times_s[segments] + np.minimum(passed_s, lengths_s)
        moments_ns: Moments = np.minimum(np.rint(moments_s * 1e9).astype(np.int64), self.length_ns - 1)
        return moments_ns

    def _knots(self) -> tuple[Floats, Floats, Floats]:
        """Times, rates, and requests until each time."""
        times_s, rates = np.array(self.points, dtype=np.float64).T
        areas = np.concatenate([[0.0], np.cumsum(np.diff(times_s) * (rates[1:] + rates[:-1]) / 2)])
        return times_s, rates, areas


@dataclass(frozen=True, slots=True)
class Ramp:
    """From one rate to another in a straight line. length_s: None for the length of the trace's part."""

    from_per_s: float
    to_per_s: float
    length_s: float | None = None

    def __post_init__(self) -> None:
        for rate_per_s in (self.from_per_s, self.to_per_s):
            if not 0 <= rate_per_s < math.inf:
                raise ScheduleError(f"--ramp holds a rate of {rate_per_s:g}", hint="give --ramp 1..50")
        if self.length_s is not None and to_ns(self.length_s) < 1:
            raise ScheduleError(f"--ramp-time is {self.length_s:g} s", hint="give a time above 0, such as 5m")

    def curve(self, part_ns: int) -> RateCurve:
        """The curve over a part of a trace that is so long."""
        length_s = part_ns / 1e9 if self.length_s is None else self.length_s
        return RateCurve(((0.0, self.from_per_s), (length_s, self.to_per_s)))


def parse_ramp(text: str, length_s: float | None) -> Ramp:
    """`1..50`: from 1 to 50 requests per second. Raises ScheduleError for what is none."""
    try:
        start, end = (float(part) for part in text.split(".."))
    except ValueError as exc:
        raise ScheduleError(f"--ramp is {text!r}", hint="give two rates per second: 1..50") from exc
    return Ramp(start, end, length_s)


def read_rate_series(path: Path) -> RateCurve:
    """A curve from a file: CSV lines `time,rate` (with or without a heading), or JSON of the same.

    Times are seconds, or dates of ISO 8601 (UTC where no zone is told); the first counts as 0.
    Raises ScheduleError naming file and line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not UTF-8 text"
        raise ScheduleError(f"{path}: cannot be read ({reason})", hint=_FORMS) from exc
    pairs = _json_pairs(path, text) if text.lstrip()[:1] in ("[", "{") else _csv_pairs(path, text)
    points: list[tuple[float, float]] = []
    for place, time_value, rate_value in pairs:
        try:
            points.append((_seconds(time_value), float(rate_value)))
        except (TypeError, ValueError) as exc:
            raise ScheduleError(
                f"{path}: {place}: {time_value!r}, {rate_value!r} is no time and rate", hint=_FORMS
            ) from exc
    if not points:
        raise ScheduleError(f"{path}: holds no rate", hint=_FORMS)
    start_s = points[0][0]
    try:
        return RateCurve(tuple((round(time_s - start_s, 9), rate) for time_s, rate in points))
    except ScheduleError as error:
        raise ScheduleError(f"{path}: {error.message}", hint=error.hint) from error


def _csv_pairs(path: Path, text: str) -> Iterable[tuple[str, Any, Any]]:
    rows = list(csv.reader(text.splitlines()))
    for number, row in enumerate(rows, start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        if len(cells) != 2:
            raise ScheduleError(f"{path}: line {number} has {len(cells)} columns, not 2", hint=_FORMS)
        if number == 1 and not _is_number(cells[1]):
            continue  # the heading
        yield f"line {number}", cells[0], cells[1]


def _json_pairs(path: Path, text: str) -> Iterable[tuple[str, Any, Any]]:
    try:
        document = json.loads(text)
    except ValueError as exc:
        raise ScheduleError(f"{path}: is no JSON ({exc})", hint=_FORMS) from exc
    if not isinstance(document, list):
        raise ScheduleError(f"{path}: is no list of points", hint=_FORMS)
    for number, entry in enumerate(document, start=1):
        if isinstance(entry, dict) and entry.keys() >= {"time", "rate"}:
            yield f"entry {number}", entry["time"], entry["rate"]
        elif isinstance(entry, list) and len(entry) == 2:
            yield f"entry {number}", entry[0], entry[1]
        else:
            raise ScheduleError(f"{path}: entry {number} is no time and rate", hint=_FORMS)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _seconds(value: Any) -> float:
    """Seconds of a number or an ISO date."""
    if isinstance(value, str) and not _is_number(value):
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool):
        raise TypeError(value)
    return float(value)
