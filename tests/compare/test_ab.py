"""Experiments: the order of runs, when they end, and what a stop costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from loadgen.compare.ab_experiment import AbExperiment, Bounds, Ended, Side, SideRun
from loadgen.compare.ab_folder import AbFolder, Pair
from loadgen.compare.ab_target import AbTarget, parse_target
from loadgen.compare.compared_run import UnusableRun
from loadgen.compare.comparison import Comparison, Terms
from loadgen.compare.judgement import Plan
from loadgen.compare.verdict import Verdict
from loadgen.errors import ExitCode, RunError, UsageError
from support import compared_runs as sides

# One run after another: small, fixed noise.
NOISE = (1.0, 1.004, 0.997, 1.002, 0.999, 1.003, 0.998, 1.001)


class Bench:
    """Two versions with the given latencies; the n-th run is off by NOISE, and may be spoilt."""

    def __init__(
        self, folder: AbFolder, a_s: float, b_s: float, spoilt: Sequence[int] = (), stop_at: int = -1
    ) -> None:
        self.folder = folder
        self.latency_s = {"a": a_s, "b": b_s}
        self.spoilt = spoilt
        self.stop_at = stop_at
        self.sides: list[str] = []

    def run(self, side: Side) -> SideRun:
        number = len(self.sides)
        if number == self.stop_at:
            raise KeyboardInterrupt
        self.sides.append(side)
        latency_s = self.latency_s[side] * NOISE[number % len(NOISE)]
        generator = {"workers": [], "lost": [1] if number in self.spoilt else []}
        return SideRun(sides.run(self.folder.path, sides.rows(latency_s), minute=number, generator=generator))


def new(path: Path) -> AbFolder:
    return AbFolder.create(path, "trace", {"options": {}})


def experiment(
    bench: Bench,
    *,
    max_pairs: int = 8,
    seed: int = 0,
    told: Callable[[int, Pair, Comparison | None], None] | None = None,
) -> AbExperiment:
    terms = Terms(plan=Plan(0.05, max_pairs))
    return AbExperiment(bench.folder, bench.run, terms, seed, told or (lambda *_: None))


def ended(bench: Bench, bounds: Bounds | None = None) -> Ended:
    return experiment(bench).run(bounds or Bounds(8))


def test_a_worse_version_is_found_before_all_pairs_are_run(tmp_path: Path) -> None:
    one = ended(Bench(new(tmp_path), 0.1, 0.13))
    assert one.why == "decided"
    assert one.comparison is not None
    assert one.comparison.verdict is Verdict.WORSE
    assert len(one.comparison.base) < 8


def test_equal_versions_are_same_or_undecided_never_worse(tmp_path: Path) -> None:
    one = ended(Bench(new(tmp_path), 0.1, 0.1))
    assert one.comparison is not None
    assert one.comparison.verdict in (Verdict.SAME, Verdict.INCONCLUSIVE)


def test_no_more_pairs_than_allowed(tmp_path: Path) -> None:
    bench = Bench(new(tmp_path), 0.1, 0.9)
    one = experiment(bench, max_pairs=8).run(Bounds(2))
    assert (one.why, len(bench.sides)) == ("max-pairs", 4)
    assert one.comparison is not None
    assert one.comparison.exit_code is ExitCode.INCONCLUSIVE


def test_no_fewer_pairs_than_asked_for(tmp_path: Path) -> None:
    one = ended(Bench(new(tmp_path), 0.1, 0.13), Bounds(8, min_pairs=8))
    assert one.comparison is not None
    assert len(one.comparison.base) == 8


def test_no_pair_is_begun_without_time_for_it(tmp_path: Path) -> None:
    answers = iter([True, True, False])
    bench = Bench(new(tmp_path), 0.1, 0.1)
    one = ended(bench, Bounds(8, has_time=lambda: next(answers)))
    assert (one.why, len(bench.sides)) == ("max-time", 4)


def test_each_pair_has_both_sides_in_an_order_that_the_seed_draws(tmp_path: Path) -> None:
    benches = [Bench(new(tmp_path), 0.1, 0.1) for _ in range(3)]
    for bench, seed in zip(benches, (0, 0, 5), strict=True):
        experiment(bench, seed=seed).run(Bounds(8, min_pairs=8))
    orders = ["".join(bench.sides) for bench in benches]
    assert all({order[k], order[k + 1]} == {"a", "b"} for order in orders for k in range(0, 16, 2))
    assert orders[0] == orders[1] != orders[2]
    assert {"ab", "ba"} == {orders[0][k : k + 2] for k in range(0, 16, 2)}


def test_a_pair_with_an_invalid_run_does_not_count_and_is_run_again(tmp_path: Path) -> None:
    bench = Bench(new(tmp_path), 0.1, 0.1, spoilt=[2])
    one = ended(bench, Bounds(3))
    assert one.comparison is not None
    assert len(one.comparison.base) == 3
    pairs = bench.folder.pairs
    assert [pair.void is None for pair in pairs] == [True, False, True, True]
    assert "lost in the run" in str(pairs[1].void)
    assert None in (pairs[1].a, pairs[1].b)  # the other run of the pair was not made


def test_a_generator_that_cannot_keep_up_ends_it(tmp_path: Path) -> None:
    bench = Bench(new(tmp_path), 0.1, 0.1, spoilt=range(100))
    with pytest.raises(UnusableRun, match="3 pairs in a row") as caught:
        ended(bench)
    assert caught.value.exit_code is ExitCode.RUN_INVALID


def test_a_stopped_experiment_keeps_its_pairs_and_goes_on_to_the_same_end(tmp_path: Path) -> None:
    whole = ended(Bench(new(tmp_path / "whole"), 0.1, 0.103), Bounds(8, min_pairs=8))
    first = Bench(new(tmp_path / "cut"), 0.1, 0.103, stop_at=7)
    running = experiment(first)
    with pytest.raises(KeyboardInterrupt):
        running.run(Bounds(8, min_pairs=8))
    assert running.conclude().comparison is not None
    assert [pair.void for pair in first.folder.pairs] == [None, None, None, "it was interrupted"]
    second = Bench(AbFolder.open(first.folder.path), 0.1, 0.103)
    second.sides = ["x"] * 8  # the noise goes on where it would have been
    going_on = experiment(second)
    assert going_on.resume() == 3
    one = going_on.run(Bounds(8, min_pairs=8))
    assert one.comparison is not None
    assert whole.comparison is not None
    assert len(one.comparison.base) == 8
    assert one.comparison.verdict == whole.comparison.verdict


def test_resuming_what_was_decided_runs_nothing(tmp_path: Path) -> None:
    bench = Bench(new(tmp_path), 0.1, 0.13)
    ended(bench)
    again = Bench(AbFolder.open(bench.folder.path), 0.1, 0.13)
    resumed = experiment(again)
    resumed.resume()
    assert resumed.run(Bounds(8)).why == "decided"
    assert again.sides == []
    assert again.folder.comparison_path.is_file()


def test_each_pair_is_told_with_the_verdict_so_far(tmp_path: Path) -> None:
    told: list[tuple[int, str, bool]] = []
    bench = Bench(new(tmp_path), 0.1, 0.1, spoilt=[0])
    experiment(
        bench, told=lambda number, pair, so_far: told.append((number, pair.order, so_far is not None))
    ).run(Bounds(2))
    assert [(number, has) for number, _, has in told] == [(1, False), (2, True), (3, True)]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://h:8000", AbTarget("url", "http://h:8000")),
        ("h:8000", AbTarget("url", "h:8000")),
        ("--policy serial", AbTarget("serve", "--policy serial")),
        ("server --port {port}", AbTarget("command", "server --port {port}")),
        ("./start.sh:{port}", AbTarget("command", "./start.sh:{port}")),
    ],
)
def test_a_side_is_a_url_flags_or_a_command(text: str, target: AbTarget) -> None:
    assert parse_target(text, option="--a") == target


@pytest.mark.parametrize("text", ["server --port 80", "", "ftp://h", "server '{port}"])
def test_what_is_none_of_them_is_told(text: str) -> None:
    with pytest.raises(UsageError):
        parse_target(text, option="--a")


def test_a_newer_experiment_is_refused(tmp_path: Path) -> None:
    folder = new(tmp_path)
    path = folder.path / "ab.json"
    path.write_text(path.read_text().replace('"format_version": 1', '"format_version": 9'))
    with pytest.raises(RunError, match="newer"):
        AbFolder.open(folder.path)


def test_another_folder_is_no_experiment(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is no experiment"):
        AbFolder.open(tmp_path)
