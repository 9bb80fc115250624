"""The options that shape a schedule, the same for every verb that takes them."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature, signature
from pathlib import Path
from typing import Annotated

import typer

from loadgen.durations import parse_duration_s, parse_position
from loadgen.errors import UsageError
from loadgen.plan.arrivals import KINDS, Arrivals
from loadgen.plan.injection import Burst, Peak
from loadgen.plan.rate_curve import Ramp, RateCurve, parse_ramp, read_rate_series
from loadgen.plan.shape import LengthScale, Shape

_WINDOW, _INJECTION, _LENGTHS = "Which part, how fast", "Injected load", "Lengths"
_PEAK_FACTOR, _PEAK_WIDTH, _BURST_WIDTH = 2.0, "1s", "30ms"


def _in(panel: str, *names: str, help: str, metavar: str | None = None) -> typer.models.OptionInfo:  # noqa: A002  # typer's own word
    option: typer.models.OptionInfo = typer.Option(*names, help=help, metavar=metavar, rich_help_panel=panel)
    return option


Start = Annotated[
    str | None,
    _in(_WINDOW, "--start", metavar="TIME|%", help="Begin here: 90s after the first arrival, or 25%."),
]
Duration = Annotated[
    str | None,
    _in(_WINDOW, "--duration", metavar="TIME", help="Send this much of the trace, in its own time: 5m."),
]
End = Annotated[
    str | None,
    _in(_WINDOW, "--end", metavar="TIME|%", help="End here, counted like --start; in place of --duration."),
]
NumRequests = Annotated[
    int | None, _in(_WINDOW, "--num-requests", metavar="N", help="Send the first N of it only.")
]
Repeat = Annotated[
    int | None,
    _in(_WINDOW, "--repeat", metavar="N", help="Send it N times, end to end, with the silence kept between."),
]
MaxGap = Annotated[str | None, _in(_WINDOW, "--max-gap", metavar="TIME", help="Cut silences to this: 5s.")]
ScaleRate = Annotated[
    float | None,
    _in(
        _WINDOW,
        "--scale-rate",
        metavar="X",
        help="X times the requests over the same length: below 1 drawn from the trace, above 1 laid over it.",
    ),
]
RequestRate = Annotated[
    float | None,
    _in(_WINDOW, "--request-rate", metavar="R", help="The same, to a mean of R requests per second."),
]
RateSeries = Annotated[
    Path | None,
    _in(
        _WINDOW,
        "--rate-series",
        metavar="FILE",
        help="Rates over time in place of the recorded ones: CSV of time,rate, or JSON.",
    ),
]
RampRates = Annotated[
    str | None,
    _in(_WINDOW, "--ramp", metavar="A..B", help="From A to B requests per second, over the same length."),
]
RampTime = Annotated[
    str | None, _in(_WINDOW, "--ramp-time", metavar="TIME", help="The ramp's own length: 5m.")
]
Busiest = Annotated[
    str | None, _in(_WINDOW, "--busiest", metavar="TIME", help="Send the busiest stretch of this length: 5m.")
]
Speedup = Annotated[float, _in(_WINDOW, "--speedup", help="Divide every gap by this: 2 is twice as fast.")]
ArrivalForm = Annotated[
    str | None,
    _in(
        _WINDOW,
        "--arrivals",
        "--arrival",
        metavar="FORM",
        help=f"Form of the arrivals, at the same mean rate: {', '.join(KINDS)}. "
        "Default: trace; poisson for --rate-series and --ramp.",
    ),
]
Burstiness = Annotated[
    float | None,
    _in(
        _WINDOW,
        "--burstiness",
        help="Of --arrivals gamma: 1 is Poisson, less is burstier. Default: 0.25.",
    ),
]
InjectPeak = Annotated[
    bool,
    _in(
        _INJECTION,
        "--inject-peak",
        help="Raise arrivals to a multiple of the highest that the trace itself has.",
    ),
]
PeakFactor = Annotated[float, _in(_INJECTION, "--peak-factor", help="The multiple; 2 is the double peak.")]
PeakWidth = Annotated[str, _in(_INJECTION, "--peak-width", metavar="TIME", help="How long a peak lasts.")]
PeakAt = Annotated[
    list[str] | None,
    _in(
        _INJECTION,
        "--peak-at",
        metavar="TIME|%",
        help="Where a peak begins; may be given again. Default: 50%.",
    ),
]
PeakCount = Annotated[int, _in(_INJECTION, "--peak-count", help="So many peaks, evenly placed.")]
InjectBurst = Annotated[
    int | None,
    _in(_INJECTION, "--inject-burst", metavar="N", help="Add N requests within tens of milliseconds."),
]
BurstWidth = Annotated[str, _in(_INJECTION, "--burst-width", metavar="TIME", help="How long a burst lasts.")]
BurstAt = Annotated[
    list[str] | None,
    _in(
        _INJECTION,
        "--burst-at",
        metavar="TIME|%",
        help="Where a burst begins; may be given again. Default: 50%.",
    ),
]
BurstEvery = Annotated[
    str | None, _in(_INJECTION, "--burst-every", metavar="TIME", help="A burst each so often, instead.")
]
ScaleInput = Annotated[
    float,
    _in(_LENGTHS, "--scale-input", help="Multiply prompt lengths, so that a trace fits a smaller model."),
]
ScaleOutput = Annotated[float, _in(_LENGTHS, "--scale-output", help="Multiply answer lengths.")]
MaxInput = Annotated[int | None, _in(_LENGTHS, "--max-input", help="Cut prompt lengths here, after scaling.")]
MaxOutput = Annotated[
    int | None, _in(_LENGTHS, "--max-output", help="Cut answer lengths here, after scaling.")
]
TokenizerPath = Annotated[
    Path | None,
    typer.Option(
        "--tokenizer",
        metavar="FILE",
        help="Make prompts of exactly the planned tokens of this tokenizer.json (or of the folder it is in).",
        rich_help_panel=_LENGTHS,
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", help="Of everything that is drawn: injected lengths, burst moments, prompts.")
]


def takes_shape(*, before: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a verb the options of `shape_from` in place of its `**shaping`, save those that it declares itself.

    before: the parameter that they stand in front of, in --help as well.
    """

    def taking(verb: Callable[..., None]) -> Callable[..., None]:
        own = [
            one
            for one in signature(verb, eval_str=True).parameters.values()
            if one.kind is not one.VAR_KEYWORD
        ]
        names = [one.name for one in own]
        options = [
            one.replace(kind=one.POSITIONAL_OR_KEYWORD)
            for one in signature(shape_from, eval_str=True).parameters.values()
            if one.name not in names
        ]
        place = names.index(before)
        verb.__signature__ = Signature(own[:place] + options + own[place:])  # type: ignore[attr-defined]
        return verb

    return taking


def shape_from(
    *,
    start: Start = None,
    duration: Duration = None,
    end: End = None,
    busiest: Busiest = None,
    num_requests: NumRequests = None,
    repeat: Repeat = None,
    max_gap: MaxGap = None,
    scale_rate: ScaleRate = None,
    request_rate: RequestRate = None,
    speedup: Speedup = 1.0,
    rate_series: RateSeries = None,
    ramp: RampRates = None,
    ramp_time: RampTime = None,
    arrivals: ArrivalForm = None,
    burstiness: Burstiness = None,
    inject_peak: InjectPeak = False,
    peak_factor: PeakFactor = _PEAK_FACTOR,
    peak_width: PeakWidth = _PEAK_WIDTH,
    peak_at: PeakAt = None,
    peak_count: PeakCount = 1,
    inject_burst: InjectBurst = None,
    burst_width: BurstWidth = _BURST_WIDTH,
    burst_at: BurstAt = None,
    burst_every: BurstEvery = None,
    scale_input: ScaleInput = 1.0,
    scale_output: ScaleOutput = 1.0,
    max_input: MaxInput = None,
    max_output: MaxOutput = None,
    seed: Seed = 0,
) -> Shape:
    """The Shape of these options. Raises UsageError or ScheduleError naming the one that cannot be used."""
    # An option that would change nothing is a mistake; those of peaks and bursts need what they belong to.
    if not inject_peak:
        for option, is_given in (
            ("--peak-factor", peak_factor != _PEAK_FACTOR),
            ("--peak-width", peak_width != _PEAK_WIDTH),
            ("--peak-at", bool(peak_at)),
            ("--peak-count", peak_count != 1),
        ):
            if is_given:
                raise UsageError(f"{option} is given without --inject-peak", hint="add --inject-peak")
    if inject_burst is None:
        for option, is_given in (
            ("--burst-width", burst_width != _BURST_WIDTH),
            ("--burst-at", bool(burst_at)),
            ("--burst-every", burst_every is not None),
        ):
            if is_given:
                raise UsageError(f"{option} is given without --inject-burst", hint="add --inject-burst N")
    if peak_at and peak_count not in (1, len(peak_at)):
        raise UsageError(
            f"--peak-count is {peak_count}, but --peak-at is given {len(peak_at)} times",
            hint="give one of them",
        )
    peak = burst = None
    if inject_peak:
        peak = Peak(
            width_s=parse_duration_s(peak_width, option="--peak-width"),
            factor=peak_factor,
            count=peak_count,
            at=tuple(parse_position(text, option="--peak-at") for text in peak_at or ()),
        )
    if inject_burst is not None:
        burst = Burst(
            size=inject_burst,
            width_s=parse_duration_s(burst_width, option="--burst-width"),
            at=tuple(parse_position(text, option="--burst-at") for text in burst_at or ()),
            every_s=_seconds(burst_every, "--burst-every"),
        )
    rate = _rate(rate_series, ramp, _seconds(ramp_time, "--ramp-time"))
    return Shape(
        start=None if start is None else parse_position(start, option="--start"),
        duration_s=_seconds(duration, "--duration"),
        busiest_s=_seconds(busiest, "--busiest"),
        speedup=speedup,
        # A curve tells how many come when, not how: as independent users would.
        arrivals=Arrivals(arrivals or ("trace" if rate is None else "poisson"), burstiness),
        lengths=LengthScale(scale_input, scale_output, max_input, max_output),
        peak=peak,
        burst=burst,
        seed=seed,
        end=None if end is None else parse_position(end, option="--end"),
        num_requests=num_requests,
        repeat=repeat,
        max_gap_s=_seconds(max_gap, "--max-gap"),
        scale_rate=scale_rate,
        request_rate=request_rate,
        rate=rate,
    )


def _rate(series: Path | None, ramp: str | None, ramp_s: float | None) -> RateCurve | Ramp | None:
    if ramp is None:
        if ramp_s is not None:
            raise UsageError("--ramp-time is given without --ramp", hint="add --ramp A..B")
        return None if series is None else read_rate_series(Path(series))
    if series is not None:
        raise UsageError("--ramp and --rate-series exclude each other", hint="give one of them")
    return parse_ramp(ramp, ramp_s)


def _seconds(text: str | None, option: str) -> float | None:
    return None if text is None else parse_duration_s(text, option=option)
