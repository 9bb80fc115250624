"""Shape: which part of a trace to send, how fast, how long its texts, and what to inject."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from loadgen.durations import Position
from loadgen.errors import ScheduleError
from loadgen.plan.arrivals import Arrivals
from loadgen.plan.injection import Burst, Peak
from loadgen.plan.moments import to_ns


@dataclass(frozen=True, slots=True)
class LengthScale:
    """How planned lengths follow from recorded ones, so that a trace fits a smaller model.

    Lengths (tokens, characters and bytes alike) are multiplied, rounded half up, kept at 1 or more where they
    were, then cut at the maximum. Unknown lengths stay unknown.
    """

    input_factor: float = 1.0
    output_factor: float = 1.0
    max_input: int | None = None
    max_output: int | None = None

    def __post_init__(self) -> None:
        for option, factor in (("--scale-input", self.input_factor), ("--scale-output", self.output_factor)):
            if not 0 < factor < math.inf:
                raise ScheduleError(f"{option} is {factor:g}", hint="give a factor above 0; 1 keeps lengths")
        for option, longest in (("--max-input", self.max_input), ("--max-output", self.max_output)):
            if longest is not None and longest < 1:
                raise ScheduleError(f"{option} is {longest}", hint="give 1 or more")


@dataclass(frozen=True, slots=True)
class Shape:
    """What is done to a trace, in this order: window, speed, form of arrivals, injections.

    start: of the window, from the first arrival. duration_s: its length in the trace's own time; None to the end.
    busiest_s: take the window of that length with most arrivals instead, the earliest of equals.
    speedup: gaps are divided by it. arrivals: their form, at the same mean rate.
    peak, burst: None injects none. seed: of everything that is drawn.
    Raises ScheduleError naming the flag if a value cannot be used.
    """

    start: Position | None = None
    duration_s: float | None = None
    busiest_s: float | None = None
    speedup: float = 1.0
    arrivals: Arrivals = field(default_factory=Arrivals)
    lengths: LengthScale = field(default_factory=LengthScale)
    peak: Peak | None = None
    burst: Burst | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.speedup < math.inf:
            raise ScheduleError(
                f"--speedup is {self.speedup:g}",
                hint="give a factor above 0: 2 halves every gap, 0.5 doubles it",
            )
        for option, length_s in (("--duration", self.duration_s), ("--busiest", self.busiest_s)):
            if length_s is not None and to_ns(length_s) < 1:
                raise ScheduleError(f"{option} is {length_s:g} s", hint="give a time above 0, such as 5m")
        if self.busiest_s is not None and (self.start is not None or self.duration_s is not None):
            raise ScheduleError(
                "--busiest picks the window itself", hint="leave out --start and --duration, or --busiest"
            )
        if self.seed < 0:
            raise ScheduleError(f"--seed is {self.seed}", hint="give 0 or more")

    def as_settings(self) -> dict[str, Any]:
        """The shape as plain values, for the schedule's metadata."""
        return asdict(self)
