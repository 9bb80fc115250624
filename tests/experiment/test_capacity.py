"""Capacity: the search finds where limits stop holding, whatever the luck of single runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.experiment.capacity import HIGHEST, LOWEST, Probe, bracket, capacity_of, next_speed
from support import command


def searched(
    holds: Callable[[float, int], bool], *, precision: float = 0.05, confirm: int = 3
) -> list[Probe]:
    """All probes of a search; holds: of a speed and the number of the probe."""
    probes: list[Probe] = []
    while (speed := next_speed(probes, precision=precision, confirm=confirm)) is not None:
        probes.append(Probe(speed, holds(speed, len(probes)), f"run-{len(probes)}", 10 * speed))
        assert len(probes) < 200
    return probes


@given(limit=st.floats(LOWEST * 1.01, HIGHEST * 0.99), precision=st.sampled_from([0.02, 0.05, 0.2]))
def test_a_sharp_limit_is_found_to_the_precision(limit: float, precision: float) -> None:
    found = capacity_of(searched(lambda speed, _: speed <= limit, precision=precision))
    assert found.speed is not None
    assert found.breaks is not None
    assert found.speed <= limit < found.breaks
    assert found.breaks / found.speed <= 1 + precision
    assert (found.held, found.runs, found.broken, found.breaks_runs) == (3, 3, 3, 3)
    assert found.rate == pytest.approx(10 * found.speed)


@given(limit=st.floats(0.5, 8), luck=st.lists(st.booleans(), min_size=300, max_size=300))
def test_a_search_ends_though_runs_near_the_limit_go_either_way(limit: float, luck: list[bool]) -> None:
    probes = searched(lambda speed, number: luck[number] if abs(speed / limit - 1) < 0.1 else speed < limit)
    found = capacity_of(probes)
    assert found.speed is not None
    assert found.runs >= 3
    assert 0.85 * limit < found.speed < 1.15 * limit


def test_what_holds_everywhere_and_what_holds_nowhere_end_at_the_bounds() -> None:
    most = capacity_of(searched(lambda *_: True))
    assert (most.speed, most.breaks, most.runs) == (HIGHEST, None, 3)
    least = capacity_of(searched(lambda *_: False))
    assert (least.speed, least.breaks, least.at_least) == (None, LOWEST, None)


def test_a_first_run_that_was_luck_is_found_out_by_the_runs_that_confirm_it() -> None:
    # 2 holds in its first run only; the limit is at 1.5.
    seen: dict[float, int] = {}

    def holds(speed: float, _: int) -> bool:
        seen[speed] = seen.get(speed, 0) + 1
        return speed <= 1.5 or (speed == 2 and seen[speed] == 1)

    found = capacity_of(searched(holds))
    assert found.speed is not None
    assert 1.4 < found.speed <= 1.5


def test_the_confidence_is_that_of_so_many_runs_of_so_many() -> None:
    three = capacity_of([Probe(1.0, True, "a")] * 3)
    assert three.at_least == pytest.approx(0.1 ** (1 / 3))
    two = capacity_of([Probe(1.0, True, "a"), Probe(1.0, True, "b"), Probe(1.0, False, "c")])
    assert two.at_least is not None
    assert two.at_least < 0.3


def test_a_lower_speed_that_breaks_bounds_what_holds() -> None:
    found = bracket([Probe(1.0, True, "a"), Probe(2.0, False, "b"), Probe(4.0, True, "c")])
    assert (found.holds, found.breaks) == (1.0, 2.0)


BENCH = """
name = "bench"

[send]
ignore_eos = true
chars_per_token = 1

[[target]]
name = "serial"
serve = "--policy serial"

[[target]]
name = "continuous"
serve = "--policy continuous"

[[load]]
name = "steady"
duration = "40s"
request_rate = 2.0
arrivals = "uniform"
"""


def test_the_command_finds_more_for_the_policy_that_carries_more_and_goes_on_from_its_probes(
    tmp_path: Path,
) -> None:
    (tmp_path / "bench.toml").write_text(BENCH)
    limits = ["--slo", "latency p99 < 2s", "--slo", "error_rate < 1%"]
    ran = command.run(
        "experiment", tmp_path / "bench.toml", "--simulate", "--find-capacity", *limits, "--json",
        "--out-dir", tmp_path / "out",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    document = json.loads(ran.stdout)
    serial, joined = document["capacities"]
    # A simulated run is the same each time: one each tells all, and more would not make it surer.
    assert (serial["held"], serial["runs"], serial["at_least"]) == (1, 1, None)
    assert joined["speed"] > 2 * serial["speed"]
    assert serial["rate"] == pytest.approx(2 * serial["speed"], rel=0.1)

    log = Path(document["folder"]) / "capacity.json"
    probes = json.loads(log.read_text())
    whole = probes["continuous | steady"]
    log.write_text(json.dumps({**probes, "continuous | steady": whole[:4]}))
    again = command.run("experiment", "--resume", document["folder"], "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["capacities"][1]["speed"] == joined["speed"]
    made = json.loads(log.read_text())["continuous | steady"]
    assert made[:4] == whole[:4]
    assert len(made) == len(whole)


def test_a_search_without_a_limit_is_refused(tmp_path: Path) -> None:
    ran = command.run("experiment", "policies", "--find-capacity", "--out-dir", tmp_path / "out")
    assert ran.returncode == 2
    assert "--slo" in ran.stderr


def test_a_limit_that_a_run_tells_nothing_of_ends_the_search(tmp_path: Path) -> None:
    (tmp_path / "bench.toml").write_text(BENCH)
    ran = command.run(
        "experiment", tmp_path / "bench.toml", "--simulate", "--find-capacity", "--only", "serial",
        "--slo", "gpu_active_share < 50%", "--out-dir", tmp_path / "out",
    )  # fmt: skip
    assert ran.returncode == 2
    assert "nothing is known of 'gpu_active_share < 50%'" in ran.stderr


@pytest.mark.parametrize(
    ("limit", "code", "told"),
    [("latency p99 < 1ms", 1, "break even at x0.125"), ("latency p99 < 9h", 0, "hold even at x64")],
)
def test_what_holds_nowhere_or_everywhere_is_said_in_words(
    limit: str, code: int, told: str, tmp_path: Path
) -> None:
    (tmp_path / "bench.toml").write_text(BENCH)
    ran = command.run(
        "experiment", tmp_path / "bench.toml", "--simulate", "--find-capacity", "--only", "serial",
        "--slo", limit, "--out-dir", tmp_path / "out",
    )  # fmt: skip
    assert ran.returncode == code, ran.stderr
    assert told in ran.stdout
