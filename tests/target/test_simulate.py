"""Whole runs of the engine on a simulated clock: what each policy gains, and what it costs."""

from __future__ import annotations

import math
import random

import pytest

from loadgen_target.config import PolicyConfig, PolicyName
from loadgen_target.request import Status
from support.simulated_engine import Arrival, CostModel, Simulation, simulate

MS = 1_000_000
COST = CostModel(fixed_ns=8 * MS, prompt_token_ns=MS // 10, row_ns=MS // 4)
POLICIES: tuple[PolicyName, ...] = ("serial", "fixed-window", "dynamic", "continuous")


def run(name: PolicyName, arrivals: list[Arrival], **settings: int) -> Simulation:
    return simulate(PolicyConfig(name=name, **settings), arrivals, COST)  # type: ignore[arg-type]  # int settings


def all_at_once(count: int) -> list[Arrival]:
    rng = random.Random(7)
    return [Arrival(0, 16, min(128, max(4, round(math.exp(rng.gauss(2.7, 0.8)))))) for _ in range(count)]


def batches(simulation: Simulation) -> list[int]:
    return [step.rows for step in simulation.steps if step.kind == "prefill"]


def starts_ms(simulation: Simulation) -> list[float]:
    starts = [served.began.exec_start_ns if served.began else None for served in simulation.served]
    return [start_ns / MS for start_ns in starts if start_ns is not None]


def test_capacity_rises_from_serial_over_static_batches_to_continuous() -> None:
    lengths_s = {name: run(name, all_at_once(600)).length_ns * 1e-9 for name in POLICIES}
    assert lengths_s["serial"] > lengths_s["fixed-window"] >= lengths_s["dynamic"] > lengths_s["continuous"]
    assert lengths_s["serial"] > 4 * lengths_s["continuous"]


def test_rows_are_lost_only_where_a_batch_holds_what_has_ended() -> None:
    for name in POLICIES:
        steps = run(name, all_at_once(100)).steps
        rows, useful = sum(step.rows for step in steps), sum(step.useful_rows for step in steps)
        assert (useful < rows) == (name in ("fixed-window", "dynamic"))


def test_a_static_batch_that_releases_each_request_computes_no_lost_row() -> None:
    policy = PolicyConfig(name="dynamic", release="request")
    steps = simulate(policy, all_at_once(100), COST).steps
    assert all(step.rows == step.useful_rows for step in steps)


def test_serial_never_runs_two() -> None:
    assert {step.rows for step in run("serial", all_at_once(50)).steps} == {1}


def test_dynamic_starts_with_the_eighth_arrival() -> None:
    simulation = run("dynamic", [Arrival(10 * k * MS) for k in range(8)])
    assert starts_ms(simulation) == [70.0] * 8


def test_dynamic_starts_when_the_first_has_waited() -> None:
    simulation = run("dynamic", [Arrival((5 + 30 * k) * MS) for k in range(8)])
    assert starts_ms(simulation)[:6] == [155.0] * 6
    assert batches(simulation)[0] == 6


def test_what_waits_behind_a_batch_becomes_the_next_batch() -> None:
    long = Arrival(0, output_tokens=110)  # about a second
    later = [Arrival(k * 100 * MS + 160 * MS) for k in range(1, 5)]
    assert batches(run("dynamic", [long, *later])) == [1, 4]


def test_a_lone_request_waits_for_one_window_at_most() -> None:
    assert starts_ms(run("fixed-window", [Arrival(30 * MS)])) == [100.0]


def test_requests_of_one_window_go_together() -> None:
    simulation = run("fixed-window", [Arrival(MS), Arrival(50 * MS), Arrival(99 * MS)])
    assert starts_ms(simulation) == [100.0] * 3
    assert batches(simulation) == [3]


def test_a_backlog_goes_out_in_full_batches() -> None:
    trickle = [Arrival(20 * k * MS, output_tokens=60) for k in range(40)]
    sizes = batches(run("fixed-window", trickle))
    assert sizes[1:-1] == [8] * len(sizes[1:-1])


def test_two_batches_in_flight_are_stepped_in_turn_and_never_three() -> None:
    simulation = run("dynamic", all_at_once(64), max_inflight_batches=2)
    assert {step.group for step in simulation.steps} == {0, 1}
    assert max(step.num_running for step in simulation.steps) <= 16


@pytest.mark.parametrize("name", POLICIES)
def test_first_come_is_first_to_start(name: PolicyName) -> None:
    rng = random.Random(3)
    arrivals = [
        Arrival(at_ns, 16, 1 + at_ns % 40) for at_ns in sorted(rng.randrange(10**9) for _ in range(80))
    ]
    starts = starts_ms(run(name, arrivals))
    assert starts == sorted(starts)


def test_the_queue_limit_is_exact() -> None:
    simulation = simulate(PolicyConfig(name="serial"), [Arrival(0, 16, 5)] * 100, COST, max_queue_size=64)
    assert sum(served.status is Status.REJECTED for served in simulation.served) == 36


@pytest.mark.parametrize("queue_only", [True, False])
@pytest.mark.parametrize("name", POLICIES)
def test_a_timeout_comes_within_one_step(name: PolicyName, queue_only: bool) -> None:
    timeout_ns = 3_000 * MS
    simulation = simulate(
        PolicyConfig(name=name),
        [Arrival(0, 16, 128)] * 60,
        COST,
        timeout_ns=timeout_ns,
        times_queue_only=queue_only,
    )
    late = [served for served in simulation.served if served.status is Status.TIMEOUT]
    longest_ns = max(step.end_ns - step.start_ns for step in simulation.steps)
    assert late
    # A step of prefill and one of decode may run between two looks at the clock.
    assert all(timeout_ns <= served.ended_ns <= timeout_ns + 2 * longest_ns for served in late)
    if queue_only:
        assert all(served.began is None or served.began.exec_start_ns is None for served in late)


def test_a_long_prompt_does_not_stop_the_running_rows_for_more_than_one_iteration() -> None:
    arrivals = [Arrival(0, 8, 100), *(Arrival(50 * MS, 400, 4) for _ in range(6))]
    steps = run("continuous", arrivals).steps
    kinds = "".join(step.kind[0] for step in steps)
    assert "pp" not in kinds
