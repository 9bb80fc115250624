"""How like two traces are: figures small enough to check by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.trace.likeness import (
    ABSOLUTE,
    DISTANCE,
    RELATIVE,
    Likeness,
    dispersion,
    ks_distance,
    likenesses,
    rank_correlation,
)
from loadgen.trace.parquet import read_trace
from loadgen.trace.trace import Trace
from support import command
from support.traces import trace_of, written

SECOND = 10**9


def figures_of(original: Trace, synthetic: Trace, *draws: Trace) -> dict[str, Likeness]:
    found = likenesses(original, synthetic, (draws[0], draws[1]) if draws else (synthetic, synthetic))
    assert len({figure.name for figure in found}) == len(found)
    return {figure.name: figure for figure in found}


def steady(count: int, gap_s: float, **columns: Any) -> Trace:
    return trace_of([row * gap_s for row in range(count)], **columns)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ([1, 2, 3], [1, 2, 3], 0),
        ([1, 2], [3, 4], 1),
        ([1, 2, 3, 4], [3, 4, 5, 6], 0.5),
        ([1, 1, 1, 2], [1, 2, 2, 2], 0.5),
        ([1], [1, 2], 0.5),
        ([], [1], None),
    ],
)
def test_ks_distance_is_the_greatest_between_the_steps(
    one: list[int], other: list[int], distance: float | None
) -> None:
    assert ks_distance(np.array(one), np.array(other)) == distance
    assert ks_distance(np.array(other), np.array(one)) == distance


@pytest.mark.parametrize(
    ("one", "other", "correlation"),
    [
        ([1, 2, 3, 4], [1, 10, 100, 1000], 1),
        ([1, 2, 3, 4], [9, 8, 7, 0], -1),
        # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: covariance 1.125, variances 1.125 and 1.25.
        ([1, 5, 5, 9], [1, 2, 3, 4], 1.125 / (1.125 * 1.25) ** 0.5),
        ([7, 7, 7], [1, 2, 3], None),
        ([1, 2], [1, 2], None),
        ([], [], None),
    ],
)
def test_rank_correlation_gives_equal_values_their_mean_rank(
    one: list[int], other: list[int], correlation: float | None
) -> None:
    found = rank_correlation(np.array(one), np.array(other))
    assert found == (None if correlation is None else pytest.approx(correlation))


def test_dispersion_counts_whole_windows_only() -> None:
    # Counts of 2, 0, 2, 0 within 4 s; what comes at 4.5 s lies in a window that is not whole.
    arrivals = np.array([0, 0.5, 2, 2.5, 4.5]) * SECOND
    assert dispersion(arrivals.astype(np.int64), SECOND) == 1.0
    assert dispersion(arrivals[:-1].astype(np.int64), SECOND) is None


def test_differences_are_shares_of_the_original() -> None:
    rate = figures_of(steady(11, 1.0), steady(11, 0.8), steady(11, 1.0), steady(11, 0.5))["rate"]
    assert (rate.kind, rate.original, rate.synthetic) == (RELATIVE, 1.0, 1.25)
    assert rate.difference == pytest.approx(0.25)
    assert (rate.halves, rate.draws) == (0, 1.0)
    assert rate.is_close is True


@pytest.mark.parametrize(
    ("difference", "halves", "draws", "is_close"),
    [
        (0.2, 0.1, 0.1, False),
        (-0.2, 0.1, 0.1, False),
        (0.2, 0.3, 0.1, True),
        (-0.2, None, 0.2, True),
        (0.2, None, None, None),
        (None, 0.2, 0.2, None),
    ],
)
def test_close_is_no_further_than_halves_or_draws_are_apart(
    difference: float | None, halves: float | None, draws: float | None, is_close: bool | None
) -> None:
    assert Likeness("rate", "/s", RELATIVE, 1.0, 1.2, difference, halves, draws).is_close is is_close


def test_lengths_are_compared_by_quantiles_order_and_distribution() -> None:
    lengths = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    figures = figures_of(
        steady(10, 1.0, input_tokens=lengths, output_tokens=lengths),
        steady(10, 1.0, input_tokens=lengths, output_tokens=lengths[::-1]),
    )
    median = figures["input_tokens p50"]
    assert (median.unit, median.original, median.synthetic) == ("tokens", 5.0, 5.0)
    together = figures["input-output correlation"]
    assert together.kind == ABSOLUTE
    assert (together.original, together.synthetic, together.difference) == pytest.approx((1, -1, -2))
    assert figures["input_tokens serial correlation"].original == pytest.approx(1.0)
    distance = figures["output_tokens KS distance"]
    assert (distance.kind, distance.original, distance.difference, distance.halves) == (
        DISTANCE,
        None,
        0.0,
        1.0,
    )


def test_sessions_and_blocks_are_compared_where_there_are_some() -> None:
    original = steady(4, 1.0, session=[0, 0, 1, None], prefix_blocks=[[1, 2], [1, 2, 3], [1], None])
    figures = figures_of(original, original)
    assert figures["turns of a session"].original == 1.5
    # 1, 2 and 1 of six came before.
    assert figures["blocks seen before"].original == 0.5
    assert "turns of a session" not in figures_of(steady(4, 1.0), original)


def test_figures_that_do_not_exist_are_left_out() -> None:
    figures = figures_of(trace_of([0.0]), trace_of([0.0]))
    assert not {"rate", "gap variation", "ties", "gap KS distance"} & set(figures)
    assert figures["busiest 1 s"].original == 1
    tied = figures_of(trace_of([0.0, 0.0]), trace_of([0.0, 0.0]))
    assert "rate" not in tied
    assert tied["ties"].original == 1


def test_the_command_draws_a_trace_and_tells_how_close_it_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 500, 400).tolist()
    source = written(tmp_path, np.cumsum(rng.exponential(0.1, 400)).tolist(), input_tokens=lengths)
    done = command.run("trace", "synth", "--like", source, "--seed", 5, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    synthetic = read_trace(tmp_path / "trace-synth-5.parquet")
    assert told["trace"] == "trace-synth-5.parquet"
    assert (told["trace_id"], told["requests"]) == (synthetic.trace_id, synthetic.num_rows)
    assert told["drawn"]["like"] == read_trace(source).trace_id
    figures = {figure["name"]: figure for figure in told["figures"]}
    assert 0.7 < figures["rate"]["synthetic"] / figures["rate"]["original"] < 1.4
    assert {"dispersion, 1 s", "busiest 10 s", "input_tokens p99", "gap KS distance"} <= set(figures)

    again = command.run("trace", "synth", "--like", source, "--seed", 5)
    assert again.returncode == 2
    assert "exists already" in again.stderr

    short = command.run(
        "trace", "synth", "--like", source, "--duration", "5s", "-o", tmp_path / "short.parquet"
    )
    assert short.returncode == 0
    assert "drawn, not recorded" in short.stderr
    table = [line.split() for line in short.stdout.splitlines()]
    assert table[0] == ["figure", "original", "synthetic", "off", "by", "halves", "draws"]
    assert table[1][0] == "rate"
    assert read_trace(tmp_path / "short.parquet").span_s < 5


def test_a_trace_of_one_instant_has_no_rate_to_draw_a_duration_from(tmp_path: Path) -> None:
    source = written(tmp_path, [0.0, 0.0])
    done = command.run("trace", "synth", "--like", source, "--duration", "5s")
    assert done.returncode == 2
    assert "no rate to draw from" in done.stderr
    assert command.run("trace", "synth", "--like", source).returncode == 0
