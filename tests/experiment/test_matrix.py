"""Matrix: what an experiment's file says, and the order of its cells."""

from __future__ import annotations

import tomllib
from collections import Counter
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from loadgen.cli.bench import shape_of_load
from loadgen.cli.experiment import READY
from loadgen.errors import UsageError
from loadgen.experiment.matrix import Cell, Matrix, matrix_from
from loadgen.experiment.placing import Claim
from loadgen.simulate.simulated_run import server_config

WHOLE = """
name = "bench"
trace = "day.parquet"
repeats = 2
slo = ["latency p99 < 800ms"]

[send]
ignore-eos = true

[shape]
duration = "30s"

[[target]]
name = "ours"
serve = "--policy dynamic"

[[target]]
name = "theirs"
command = "their-server --port {port}"
health = "/ready"

[[load]]
name = "slow"
request-rate = 2.0

[[load]]
name = "fast"
duration = "5s"
serve = "--timeout none"
"""


def parsed(text: str) -> Matrix:
    return matrix_from(tomllib.loads(text), where="bench.toml", beside=Path("/data"))


def test_a_file_says_targets_loads_and_how_to_send() -> None:
    matrix = parsed(WHOLE)
    assert matrix.trace == Path("/data/day.parquet")
    assert matrix.send == {"ignore_eos": True}
    assert matrix.slo == ("latency p99 < 800ms",)
    assert [(one.name, one.target.kind, one.health) for one in matrix.targets] == [
        ("ours", "serve", None),
        ("theirs", "command", "/ready"),
    ]
    assert matrix.load("slow").options == {"duration": "30s", "request_rate": 2.0}
    assert matrix.load("fast").options == {"duration": "5s"}


def test_a_load_adds_flags_to_the_bundled_server_only() -> None:
    matrix = parsed(WHOLE)
    flags = matrix.load("fast").serve
    assert matrix.target("ours").with_flags(flags).text == "--policy dynamic --timeout none"
    assert matrix.target("theirs").with_flags(flags) == matrix.target("theirs").target


def test_each_repeat_has_every_cell_once_with_the_targets_of_a_load_side_by_side() -> None:
    cells = parsed(WHOLE).cells(seed=3)
    assert Counter(cells) == {
        Cell(target, load, repeat): 1
        for target in ("ours", "theirs")
        for load in ("slow", "fast")
        for repeat in (0, 1)
    }
    assert [(cell.repeat, cell.load) for cell in cells[::2]] == [
        (0, "slow"),
        (0, "fast"),
        (1, "slow"),
        (1, "fast"),
    ]
    assert cells == parsed(WHOLE).cells(seed=3)
    assert len({tuple(parsed(WHOLE).cells(seed)) for seed in range(8)}) > 1


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (('name = "slow"', 'name = "fast"'), "fast"),
        (('name = "theirs"', 'name = "ours"'), "ours"),
        (("[send]", "[sned]"), "sned"),
        (('serve = "--policy dynamic"', ""), "nothing to run"),
        (("their-server --port {port}", "their-server --port 9"), "port"),
        (('command = "their-server --port {port}"\nhealth = "/ready"', 'url = "their {port}"'), "is no url"),
        (("repeats = 2", "repeats = 0"), "repeats"),
        (("repeats = 2", 'repeats = "2"'), "repeats"),
        (("[[load]]\nname = \"slow\"", "[[load]]"), "no name"),
        (('name = "bench"', "name = 3"), "bench.toml: name is 3"),
        (('slo = ["latency p99 < 800ms"]', "slo = 3"), "slo is 3"),
        (('slo = ["latency p99 < 800ms"]', "slo = [3]"), "slo is .3."),
        (("repeats = 2", "repeats = true"), "repeats is True"),
        (('serve = "--timeout none"', "serve = 3"), "serve is 3"),
        (('health = "/ready"', "health = 1"), "theirs: health is 1"),
        (('serve = "--policy dynamic"', 'serve = "--policy dynamic"\nhealth = "/up"'), "for a command"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(change: tuple[str, str], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        parsed(WHOLE.replace(*change, 1))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"speed": 2}, "no option speed"),
        ({"duration": 30}, "load slow: duration is 30, which is no text"),
        ({"request_rate": "4"}, "request_rate is '4', which is no number"),
        ({"inject_peak": "yes"}, "inject_peak is 'yes'"),
        ({"num_requests": True}, "num_requests is True"),
        ({"num_requests": 2.5}, "num_requests is 2.5, which is no whole number"),
        ({"inject_peak": True, "peak_at": "50%"}, "peak_at is '50%', which is no list"),
        ({"peak_at": ["50%"]}, "--inject-peak"),
    ],
)
def test_a_load_that_cannot_be_planned_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        shape_of_load(options, seed=0, where="slow")


def test_a_whole_number_is_a_number_and_a_file_is_beside_the_experiment() -> None:
    assert shape_of_load({"request_rate": 4}, seed=0, where="slow").request_rate == 4
    matrix = parsed(WHOLE.replace('duration = "30s"', 'rate-series = "rates.csv"', 1))
    assert matrix.load("slow").options["rate_series"] == "/data/rates.csv"


@pytest.mark.parametrize("name", READY)
def test_the_ready_experiments_can_be_run(name: str) -> None:
    text = resources.files("loadgen.experiment").joinpath(f"ready/{name}.toml").read_text(encoding="utf-8")
    matrix = matrix_from(tomllib.loads(text), where=name, beside=Path())
    assert matrix.about
    for load in matrix.loads:
        shape_of_load(load.options, seed=0, where=load.name)
        for target in matrix.targets:
            server_config(target.with_flags(load.serve).text)


def test_a_target_says_what_it_has_to_itself() -> None:
    targets = [
        {"name": "whole", "serve": ""},
        {"name": "part", "command": "server --port {port}", "cpus": 4, "gpus": 1},
        {"name": "away", "url": "http://gpu-1:8000", "on": ["gpu-1"]},
        {"name": "unknown", "url": "http://gpu-2:8000"},
    ]
    matrix = matrix_from({"target": targets}, where="x.toml", beside=Path())
    assert [one.claim(2) for one in matrix.targets] == [
        Claim(None),
        Claim(4, 1.0),
        Claim(2, 0.0, frozenset({"http://gpu-1:8000", "gpu-1"})),
        Claim(2, 0.0, None),
    ]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ({"serve": "", "on": ["gpu-1"]}, "on is not for a serve"),
        ({"url": "http://x:1", "cpus": 2}, "cpus is not for a url"),
        ({"serve": "", "cpus": 0}, "says nothing"),
        ({"url": "http://x:1", "on": "gpu-1"}, "on is 'gpu-1', which is no list"),
    ],
)
def test_needs_that_mean_nothing_are_refused(target: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        matrix_from({"target": [{"name": "t", **target}]}, where="x.toml", beside=Path())
