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
from loadgen.experiment.matrix import Cell, Matrix, matrix_from, read_matrix
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


def test_a_file_says_targets_loads_and_how_to_send(tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text(WHOLE)
    matrix = read_matrix(tmp_path / "bench.toml")
    assert matrix.trace == tmp_path / "day.parquet"
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
        (('command = "their', 'url = "their'), "is no url"),
        (("repeats = 2", "repeats = 0"), "repeats"),
        (("repeats = 2", 'repeats = "2"'), "repeats"),
        (("[[load]]\nname = \"slow\"", "[[load]]"), "no name"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(change: tuple[str, str], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        parsed(WHOLE.replace(*change, 1))


@pytest.mark.parametrize(
    ("options", "named"),
    [({"speed": 2}, "speed"), ({"duration": 30}, "another form"), ({"peak_at": ["50%"]}, "--inject-peak")],
)
def test_a_load_that_cannot_be_planned_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        shape_of_load(options, seed=0, where="slow")


@pytest.mark.parametrize("name", READY)
def test_the_ready_experiments_can_be_run(name: str) -> None:
    text = resources.files("loadgen.experiment").joinpath(f"ready/{name}.toml").read_text(encoding="utf-8")
    matrix = matrix_from(tomllib.loads(text), where=name, beside=Path())
    assert matrix.about
    for load in matrix.loads:
        shape_of_load(load.options, seed=0, where=load.name)
        for target in matrix.targets:
            server_config(target.with_flags(load.serve).text)
