"""The options that `plan` and `replay` share become one Shape, or one error that names the option."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pytest

from loadgen.cli.ab import ab
from loadgen.cli.advise import advise
from loadgen.cli.plan import plan
from loadgen.cli.replay import replay
from loadgen.cli.shape_options import shape_from
from loadgen.cli.simulate import simulate
from loadgen.durations import Position
from loadgen.errors import LoadgenError
from loadgen.plan.arrivals import Arrivals
from loadgen.plan.injection import Burst, Peak
from loadgen.plan.rate_curve import Ramp
from loadgen.plan.shape import LengthScale, Shape


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ({}, Shape()),
        ({"start": "25%", "duration": "5m"}, Shape(start=Position(0.25, None), duration_s=300)),
        ({"busiest": "5m", "speedup": 2.0, "seed": 7}, Shape(busiest_s=300, speedup=2.0, seed=7)),
        ({"inject_peak": True}, Shape(peak=Peak())),
        (
            {"inject_peak": True, "peak_factor": 3.0, "peak_width": "2s", "peak_at": ["10%", "90s"]},
            Shape(peak=Peak(2.0, 3.0, 1, (Position(0.1, None), Position(None, 90)))),
        ),
        ({"inject_peak": True, "peak_count": 2}, Shape(peak=Peak(count=2))),
        ({"inject_burst": 50, "burst_every": "10s"}, Shape(burst=Burst(50, 0.03, every_s=10))),
        (
            {"inject_burst": 5, "burst_width": "20ms", "burst_at": ["1m"]},
            Shape(burst=Burst(5, 0.02, (Position(None, 60),))),
        ),
        ({"arrivals": "gamma", "burstiness": 0.5}, Shape(arrivals=Arrivals("gamma", 0.5))),
        ({"end": "90%", "num_requests": 9}, Shape(end=Position(0.9, None), num_requests=9)),
        (
            {"repeat": 3, "max_gap": "2s", "scale_rate": 0.5},
            Shape(repeat=3, max_gap_s=2.0, scale_rate=0.5),
        ),
        ({"request_rate": 40.0}, Shape(request_rate=40.0)),
        ({"ramp": "1..50"}, Shape(rate=Ramp(1, 50), arrivals=Arrivals("poisson"))),
        (
            {"ramp": "5..0.5", "ramp_time": "5m", "arrivals": "uniform"},
            Shape(rate=Ramp(5, 0.5, 300), arrivals=Arrivals("uniform")),
        ),
        (
            {"scale_input": 0.01, "scale_output": 0.5, "max_input": 32, "max_output": 64},
            Shape(lengths=LengthScale(0.01, 0.5, 32, 64)),
        ),
    ],
)
def test_options_become_this_shape(given: dict[str, Any], shape: Shape) -> None:
    assert shape_from(**given) == shape


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"speedup": 0.0}, "--speedup is 0"),  # F40
        ({"duration": "5"}, "--duration is '5'"),
        ({"start": "110%"}, "--start is '110%'"),
        ({"busiest": "0"}, "--busiest is 0 s"),
        ({"busiest": "5m", "start": "1m"}, "--busiest picks"),
        ({"peak_factor": 3.0}, "--peak-factor is given without --inject-peak"),
        ({"peak_width": "2s"}, "--peak-width is given without"),
        ({"peak_at": ["5s"]}, "--peak-at is given without"),
        ({"peak_count": 2}, "--peak-count is given without"),
        ({"inject_peak": True, "peak_at": ["1s", "9s"], "peak_count": 3}, "--peak-count is 3"),
        ({"burst_width": "9ms"}, "--burst-width is given without --inject-burst"),
        ({"burst_at": ["5s"]}, "--burst-at is given without"),
        ({"burst_every": "3s"}, "--burst-every is given without"),
        ({"inject_burst": 0}, "--inject-burst is 0"),
        ({"inject_burst": 5, "burst_at": ["1s"], "burst_every": "3s"}, "--burst-at and --burst-every"),
        ({"burstiness": 0.5}, "--burstiness is given with --arrivals trace"),
        ({"arrivals": "even"}, "--arrivals is 'even'"),
        ({"scale_output": -1.0}, "--scale-output is -1"),
        ({"max_input": 0}, "--max-input is 0"),
        ({"seed": -1}, "--seed is -1"),
        ({"end": "9s", "duration": "5s"}, "--end and --duration"),
        ({"busiest": "5m", "end": "1m"}, "--busiest picks"),
        ({"num_requests": 0}, "--num-requests is 0"),
        ({"repeat": 0}, "--repeat is 0"),
        ({"max_gap": "0"}, "--max-gap is 0"),
        ({"scale_rate": 0.0}, "--scale-rate is 0"),
        ({"request_rate": float("nan")}, "--request-rate is nan"),
        ({"request_rate": 1.0, "scale_rate": 1.0}, "--scale-rate and --request-rate"),
        ({"ramp": "1-50"}, "--ramp is '1-50'"),
        ({"ramp": "1..-5"}, "--ramp holds a rate of -5"),
        ({"ramp": "0..0", "ramp_time": "5"}, "--ramp-time is '5'"),
        ({"ramp_time": "5m"}, "--ramp-time is given without --ramp"),
        ({"ramp": "1..5", "rate_series": "rates.csv"}, "--ramp and --rate-series"),
        ({"ramp": "1..5", "speedup": 2.0}, "--ramp sets all moments itself, so --speedup"),
        ({"ramp": "1..5", "arrivals": "trace"}, "--ramp sets all moments itself, so --arrivals trace"),
        ({"rate_series": "no/such.csv"}, "no/such.csv: cannot be read"),
    ],
)
def test_what_cannot_be_used_is_named(given: dict[str, Any], option: str) -> None:
    with pytest.raises(LoadgenError, match=option) as refused:
        shape_from(**given)
    assert refused.value.hint


@pytest.mark.parametrize("verb", [plan, replay, ab, simulate, advise])
def test_each_verb_that_plans_takes_every_option(verb: Any) -> None:
    assert signature(shape_from).parameters.keys() <= signature(verb).parameters.keys()
