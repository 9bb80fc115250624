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
from loadgen.plan.rate_curve import Ramp, RateCurve


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
    """What is done to a trace, in this order: part, repetition, silences, number, speed, arrivals, injections.

    start, end: of the part, from the first arrival. duration_s: its length in the trace's own time.
    busiest_s: take the part of that length with most arrivals instead, the earliest of equals.
    num_requests: end the part with its so many-th request. repeat: send the part so often, end to end; None once.
    max_gap_s: silences are cut to it. scale_rate: so many times the requests over the same length.
    request_rate: as many as make that mean rate, per second of the run. speedup: gaps are divided by it.
    rate: a curve that tells when, in place of the recorded moments. arrivals: their form, at the same mean rate.
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
    end: Position | None = None
    num_requests: int | None = None
    repeat: int | None = None
    max_gap_s: float | None = None
    scale_rate: float | None = None
    request_rate: float | None = None
    rate: RateCurve | Ramp | None = None

    def __post_init__(self) -> None:
        for option, factor, example in (
            ("--speedup", self.speedup, "2 halves every gap, 0.5 doubles it"),
            ("--scale-rate", self.scale_rate, "2 sends twice as many, 0.5 half"),
            ("--request-rate", self.request_rate, "requests per second"),
        ):
            if factor is not None and not 0 < factor < math.inf:
                raise ScheduleError(f"{option} is {factor:g}", hint=f"give a number above 0: {example}")
        for option, length_s in (
            ("--duration", self.duration_s),
            ("--busiest", self.busiest_s),
            ("--max-gap", self.max_gap_s),
        ):
            if length_s is not None and to_ns(length_s) < 1:
                raise ScheduleError(f"{option} is {length_s:g} s", hint="give a time above 0, such as 5m")
        for option, count in (("--num-requests", self.num_requests), ("--repeat", self.repeat)):
            if count is not None and count < 1:
                raise ScheduleError(f"{option} is {count}", hint="give 1 or more")
        if self.seed < 0:
            raise ScheduleError(f"--seed is {self.seed}", hint="give 0 or more")
        self._refuse_contradictions()

    def _refuse_contradictions(self) -> None:
        has_window = any(given is not None for given in (self.start, self.end, self.duration_s))
        if self.busiest_s is not None and has_window:
            raise ScheduleError(
                "--busiest picks the window itself",
                hint="leave out --start, --end and --duration, or --busiest",
            )
        if self.end is not None and self.duration_s is not None:
            raise ScheduleError("--end and --duration exclude each other", hint="give one of them")
        if self.scale_rate is not None and self.request_rate is not None:
            raise ScheduleError("--scale-rate and --request-rate exclude each other", hint="give one of them")
        if self.rate is None:
            return
        option = "--ramp" if isinstance(self.rate, Ramp) else "--rate-series"
        for other, is_given in (
            ("--scale-rate", self.scale_rate is not None),
            ("--request-rate", self.request_rate is not None),
            ("--speedup", self.speedup != 1.0),
            ("--max-gap", self.max_gap_s is not None),
            ("--repeat", self.repeat is not None),
            ("--arrivals trace", self.arrivals.kind == "trace"),
        ):
            if is_given:
                raise ScheduleError(
                    f"{option} sets all moments itself, so {other} has no place beside it",
                    hint="give one of them",
                )

    def as_settings(self) -> dict[str, Any]:
        """The shape as plain values, for the schedule's metadata."""
        return asdict(self)
