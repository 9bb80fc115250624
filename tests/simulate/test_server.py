"""SimulatedServer does what the real engine does on a simulated clock, to the nanosecond."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadgen.errors import UsageError
from loadgen.plan.planner import plan
from loadgen.plan.prompts import PromptMaker
from loadgen.plan.shape import Shape
from loadgen.simulate import simulated_run
from loadgen.simulate.cost_model import CostModel
from loadgen.simulate.served import INVALID, OK, REJECTED, TIMEOUT, Arrivals, Served
from loadgen.simulate.server import SimulatedServer
from loadgen.simulate.steps import counters_at
from loadgen_target.config import EngineConfig, PolicyConfig, ServerConfig
from loadgen_target.request import Status
from support.simulated_engine import Arrival, Simulation, simulate
from support.traces import trace_of

MS = 1_000_000
COST = CostModel(
    prefill_us=7_000,
    prefill_token_us=450,
    prefill_row_us=30,
    decode_us=((1, 8_000), (4, 8_000), (8, 10_000)),
    kv_token_ns=900,
)
POLICIES: dict[str, dict[str, Any]] = {
    "serial": {},
    "fixed-window": {"window_ns": 40 * MS},
    "dynamic": {"max_wait_ns": 60 * MS},
    "two batches": {"max_wait_ns": 60 * MS, "max_inflight_batches": 2},
    "released": {"max_wait_ns": 60 * MS, "release": "request"},
    "continuous": {},
    "few tokens": {"max_num_batched_tokens": 40},
}
STATUS = {Status.OK: OK, Status.REJECTED: REJECTED, Status.TIMEOUT: TIMEOUT}


def policy_of(name: str, **more: Any) -> PolicyConfig:
    kind = {"two batches": "dynamic", "released": "dynamic", "few tokens": "continuous"}.get(name, name)
    return PolicyConfig(name=kind, **{"max_batch_size": 4, **POLICIES[name], **more})  # type: ignore[arg-type]


def config_of(policy: PolicyConfig, **more: Any) -> ServerConfig:
    names = ("is_inline", "preprocess_s", "max_model_len", "step_delay_s")
    engine = {name: more.pop(name) for name in names if name in more}
    return ServerConfig(engine=EngineConfig(policy=policy, **engine), **{"timeout_s": None, **more})


def arrivals_of(rows: list[tuple[int, int, int]]) -> Arrivals:
    columns = np.asarray(rows, dtype=np.int64).reshape(-1, 3).T
    return Arrivals(*columns)


def serve(policy: PolicyConfig, rows: list[tuple[int, int, int]], **more: Any) -> Served:
    return SimulatedServer(config_of(policy, **more), COST).serve(arrivals_of(rows))


def engine_says(
    policy: PolicyConfig, rows: list[tuple[int, int, int]], limit: int, timeout_ns: int | None, *, scope: str
) -> Simulation:
    arrivals = [Arrival(at_ns, prompt, output) for at_ns, prompt, output in rows]
    return simulate(
        policy,
        arrivals,
        COST,
        max_queue_size=limit,
        timeout_ns=timeout_ns,
        times_queue_only=scope == "queue",
    )


REQUESTS = st.lists(
    st.tuples(st.integers(0, 400 * MS), st.integers(1, 60), st.integers(1, 40) | st.just(1)), max_size=40
).map(sorted)


@pytest.mark.parametrize("name", POLICIES)
@given(
    rows=REQUESTS,
    limit=st.sampled_from([3, 64]),
    timeout_ms=st.sampled_from([None, 90, 400]),
    scope=st.sampled_from(["request", "queue"]),
)
@settings(max_examples=60, deadline=None)
def test_every_moment_is_the_engines_own(
    name: str, rows: list[tuple[int, int, int]], limit: int, timeout_ms: int | None, scope: str
) -> None:
    policy = policy_of(name)
    timeout_ns = None if timeout_ms is None else timeout_ms * MS
    truth = engine_says(policy, rows, limit, timeout_ns, scope=scope)
    found = serve(
        policy,
        rows,
        max_queue_size=limit,
        timeout_s=None if timeout_ms is None else timeout_ms / 1e3,
        timeout_scope=scope,
    )
    for index, one in enumerate(truth.served):
        assert found.status[index] == STATUS[one.status]
        began, ended = one.began, one.ended
        if one.status is not Status.OK:
            continue
        assert began is not None and ended is not None
        moments = (began.enqueued_ns, began.exec_start_ns, began.first_token_ns, ended.last_token_ns)
        assert moments == (
            found.enqueued_ns[index],
            found.exec_start_ns[index],
            found.first_token_ns[index],
            found.last_token_ns[index],
        )
        assert one.ended_ns == found.ended_ns[index]
        assert ended.output_tokens == found.output_tokens[index]
        assert ended.mean_batch == pytest.approx(found.batch_sum[index] / ended.steps)
    assert found.length_ns == truth.length_ns


@pytest.mark.parametrize("name", POLICIES)
def test_the_unrolled_steps_are_the_engines_decode_steps(name: str) -> None:
    rng = np.random.default_rng(5)
    rows = sorted(
        (int(at), 8, int(n))
        for at, n in zip(rng.integers(0, 900 * MS, 60), rng.integers(1, 50, 60), strict=True)
    )
    policy = policy_of(name)
    truth = engine_says(policy, rows, 10**6, None, scope="queue")
    found = serve(policy, rows, max_queue_size=10**6)
    for index, stretches in enumerate(found.stretches):
        steps = [step for step in truth.steps if step.kind == "decode" and step.group == index]
        assert stretches.ends_ns().tolist() == [step.end_ns for step in steps]
        assert sum(stretches.busy_ns) == sum(step.end_ns - step.start_ns for step in steps)
        computed = np.repeat(stretches.rows, stretches.count), np.repeat(stretches.useful, stretches.count)
        assert computed[0].tolist() == [step.rows for step in steps]
        assert computed[1].tolist() == [step.useful_rows for step in steps]


def test_a_request_longer_than_the_model_is_refused_and_holds_nothing_up() -> None:
    found = serve(policy_of("serial"), [(0, 500, 600), (0, 8, 4)], max_model_len=1000)
    assert found.status.tolist() == [INVALID, OK]
    assert found.exec_start_ns.tolist() == [-1, 0]


def test_preprocessing_delays_the_queue_one_after_the_other_and_counts_as_waiting() -> None:
    rows = [(0, 8, 1)] * 4
    found = serve(policy_of("continuous"), rows, preprocess_s=0.05, max_queue_size=3)
    assert found.enqueued_ns.tolist() == [50 * MS, 100 * MS, 150 * MS, -1]
    assert found.status.tolist() == [OK, OK, OK, REJECTED]


def test_two_preprocessing_workers_take_two_at_once() -> None:
    found = serve(policy_of("continuous"), [(0, 8, 1)] * 4, preprocess_s=0.05, preprocess_workers=2)
    assert found.enqueued_ns.tolist() == [50 * MS, 50 * MS, 100 * MS, 100 * MS]


def test_inline_preprocessing_makes_each_prefill_longer() -> None:
    plain = serve(policy_of("serial"), [(0, 8, 4)])
    inline = serve(policy_of("serial"), [(0, 8, 4)], preprocess_s=0.05, is_inline=True)
    assert inline.first_token_ns[0] - plain.first_token_ns[0] == 50 * MS


def test_a_planted_delay_is_in_every_step() -> None:
    plain = serve(policy_of("serial"), [(0, 8, 4)])
    slow = serve(policy_of("serial"), [(0, 8, 4)], step_delay_s=0.05)
    assert slow.ended_ns[0] - plain.ended_ns[0] == 4 * 50 * MS


def test_a_setting_that_is_not_simulated_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_run, "_SIMULATED", {"name"})
    schedule = plan(trace_of([0.0]), Shape())
    simulated_run.serve(schedule, config_of(PolicyConfig()), COST, PromptMaker())
    with pytest.raises(UsageError, match="--max-batch-size is not simulated"):
        simulated_run.serve(schedule, config_of(PolicyConfig(max_batch_size=4)), COST, PromptMaker())


def test_a_queue_without_limit_is_served_in_order_and_whole() -> None:
    rows = [(0, 4, 1 + index % 7) for index in range(10_000)]
    found = serve(policy_of("continuous"), rows, max_queue_size=10**6)
    assert (found.status == OK).all()
    assert (np.diff(found.exec_start_ns) >= 0).all()


def test_counters_grow_with_the_steps_and_never_fall() -> None:
    rng = np.random.default_rng(5)
    arrivals = np.sort(rng.integers(0, 60_000 * MS, 300))
    rows = [(int(at), 8, int(n)) for at, n in zip(arrivals, rng.integers(1, 50, 300), strict=True)]
    for name in POLICIES:
        found = serve(policy_of(name), rows, max_queue_size=10**6)
        moments = np.arange(0, found.length_ns + 500 * MS, 500 * MS, dtype=np.int64)
        counters = counters_at(list(found.stretches), found.prefills, moments)
        for values in (counters.rows, counters.useful_rows, counters.busy_s):
            assert (np.diff(values) >= 0).all()
        # A row gives a token in each pass; a passing one of a held row gives none.
        assert counters.useful_rows[-1] == sum(n for _, _, n in rows)
        assert (counters.useful_rows <= counters.rows + 1e-9).all()
        # Half a second holds half a second of steps, and where batches take turns the ends of one step more.
        assert (np.diff(counters.busy_s) <= 0.53).all()
        taken_s = sum(sum(one.busy_ns) for one in found.stretches) / 1e9
        taken_s += (sum(found.prefills.end_ns) - sum(found.prefills.start_ns)) / 1e9
        assert counters.busy_s[-1] == pytest.approx(taken_s)
