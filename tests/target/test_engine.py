"""The engine on a simulated clock, with a model that only takes time: who starts when, and how each one ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen_target.clock import SimClock
from loadgen_target.config import PolicyConfig
from loadgen_target.engine import Engine
from loadgen_target.request import Began, Ended, Sampling, Status, StepRecord, Work
from loadgen_target.rows import Chunk, Row

MS = 1_000_000
STATIC = ("serial", "fixed-window", "dynamic")
POLICIES = (*STATIC, "continuous")
CHUNKED = "chunked"


def config_of(name: str, **more: Any) -> PolicyConfig:
    """The policy of this name; `chunked` is continuous that reads prompts in parts."""
    if name == CHUNKED:
        return PolicyConfig("continuous", splits_prompts=True, **more)
    return PolicyConfig(name, **more)  # type: ignore[arg-type]


class TimedRunner:
    """Every token is an `a`; a pass over prompts or rows takes `pass_ns`. Checks that batches are compact."""

    def __init__(self, clock: SimClock, pass_ns: int) -> None:
        self.clock, self.pass_ns = clock, pass_ns

    def prefill(self, rows: Sequence[Row]) -> list[int]:
        self.clock.work(self.pass_ns)
        return [ord("a")] * len(rows)

    def decode(self, rows: Sequence[Row]) -> list[int]:
        assert [row.slot for row in rows] == list(range(rows[0].slot, rows[0].slot + len(rows)))
        self.clock.work(self.pass_ns)
        return [ord("a")] * len(rows)

    def mixed(self, rows: Sequence[Row], chunks: Sequence[Chunk]) -> list[int]:
        slots = [row.slot for row in [*rows, *(chunk.row for chunk in chunks)]]
        assert chunks and slots == list(range(len(slots)))
        assert all(chunk.size > 0 and chunk.start + chunk.size == chunk.row.num_read for chunk in chunks)
        # All but the last are read to their end: what is left over is left of one prompt.
        assert all(chunk.is_last for chunk in chunks[:-1])
        self.clock.work(self.pass_ns)
        return [ord("a")] * len(slots)

    def move(self, source: int, target: int, length: int) -> None:
        assert source > target and length > 0


@dataclass
class Run:
    """One engine, and everything it said."""

    config: PolicyConfig
    pass_ns: int = 10 * MS
    clock: SimClock = field(default_factory=SimClock)
    ends: dict[int, list[tuple[Status, int]]] = field(default_factory=dict)
    began: dict[int, Began] = field(default_factory=dict)
    ended: dict[int, Ended] = field(default_factory=dict)
    tokens: Counter[int] = field(default_factory=Counter)
    starts: list[tuple[int, tuple[int, ...]]] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = Engine(self.config, TimedRunner(self.clock, self.pass_ns), self.clock)

    def step(self) -> None:
        for outcome in self.engine.step():
            if outcome.started:
                self.starts.append((self.clock.now_ns(), outcome.started))
            if outcome.record is not None:
                self.steps.append(outcome.record)
            for emission in outcome.emissions:
                self.tokens[emission.request_id] += len(emission.tokens)
                if emission.began is not None:
                    self.began[emission.request_id] = emission.began
                if emission.ended is not None:
                    self.ended[emission.request_id] = emission.ended
                    self.ends.setdefault(emission.request_id, []).append(
                        (emission.ended.status, self.clock.now_ns())
                    )

    def play(self, happenings: Sequence[tuple[int, Callable[[Engine], None]]]) -> None:
        """Let each thing happen at its moment, and step the engine between them until it is idle."""
        left = sorted(happenings, key=lambda happening: happening[0])
        for _ in range(100_000):
            while left and left[0][0] <= self.clock.now_ns():
                left.pop(0)[1](self.engine)
            wake_ns = self.engine.wake_ns()
            if wake_ns is not None and wake_ns <= self.clock.now_ns():
                self.step()
                continue
            moments = [moment for moment in (wake_ns, left[0][0] if left else None) if moment is not None]
            if not moments:
                return
            self.clock.jump_to(min(moments))
        raise AssertionError("the engine spins")

    @property
    def batches(self) -> list[int]:
        return [len(ids) for _, ids in self.starts]


def work(
    request_id: int, *, tokens: int = 4, prompt: int = 4, deadline_ns: int | None = None, inline: bool = False
) -> Work:
    text: str | tuple[int, ...] = "p" * prompt if inline else (1,) * prompt
    return Work(request_id, text, Sampling(max_tokens=tokens, ignore_eos=True), deadline_ns=deadline_ns)


def arrival(at_ms: float, given_work: Work) -> tuple[int, Callable[[Engine], None]]:
    return round(at_ms * MS), lambda engine: engine.submit(given_work)


def leaving(at_ms: float, request_id: int) -> tuple[int, Callable[[Engine], None]]:
    return round(at_ms * MS), lambda engine: engine.abort(request_id, Status.CANCELLED)


def test_dynamic_starts_when_the_first_has_waited() -> None:
    run = Run(PolicyConfig("dynamic"))
    run.play([arrival(10, work(1)), arrival(60, work(2)), arrival(159, work(3))])
    assert run.starts == [(160 * MS, (1, 2, 3))]


def test_dynamic_starts_at_the_eighth_arrival_when_that_comes_first() -> None:
    run = Run(PolicyConfig("dynamic"))
    run.play([arrival(10 + k, work(k)) for k in range(8)])
    assert run.starts == [(17 * MS, tuple(range(8)))]


def test_those_that_come_while_one_runs_are_one_batch() -> None:
    run = Run(PolicyConfig("dynamic"), pass_ns=100 * MS)
    run.play([arrival(0, work(0, tokens=8)), *(arrival(200 + 10 * k, work(k)) for k in range(1, 5))])
    assert run.batches == [1, 4]


def test_a_lone_request_starts_at_the_next_tick_and_three_in_a_window_go_together() -> None:
    run = Run(PolicyConfig("fixed-window"), pass_ns=MS)
    run.play([arrival(30, work(1)), *(arrival(moment, work(moment)) for moment in (210, 250, 290))])
    assert run.starts == [(100 * MS, (1,)), (300 * MS, (210, 250, 290))]


def test_a_backlog_leaves_in_full_batches_at_the_ticks() -> None:
    # F76.
    run = Run(PolicyConfig("fixed-window"), pass_ns=40 * MS)
    run.play([arrival(10 * k, work(k)) for k in range(24)])
    assert run.batches[1:3] == [8, 8]  # the first tick takes what had come by then
    # Each batch ends between two ticks, and the next one waits for the second of them.
    assert [start_ns % (100 * MS) for start_ns, _ in run.starts] == [0] * len(run.starts)


def test_serial_never_runs_two_and_keeps_the_order() -> None:
    run = Run(PolicyConfig("serial"))
    run.play([arrival(k, work(k)) for k in range(6)])
    assert [ids for _, ids in run.starts] == [(k,) for k in range(6)]
    assert {step.rows for step in run.steps} == {1}


def test_continuous_joins_between_two_steps() -> None:
    run = Run(PolicyConfig("continuous"))
    run.play([arrival(0, work(0, tokens=10)), arrival(35, work(1, tokens=2))])
    assert run.starts[1] == (40 * MS, (1,))
    assert run.ends[1][0][1] < run.ends[0][0][1]


def test_a_static_batch_answers_at_its_end_and_counts_its_useless_rows() -> None:
    run = Run(PolicyConfig("dynamic", max_batch_size=2))
    run.play([arrival(0, work(0, tokens=2)), arrival(0, work(1, tokens=6))])
    assert run.ends[0] == run.ends[1] == [(Status.OK, 60 * MS)]
    assert sum(step.rows for step in run.steps) == 12
    assert sum(step.useful_rows for step in run.steps) == 8
    # Two were useful in the first two steps, and one in the four after them.
    assert [run.ended[key].mean_batch for key in (0, 1)] == [2.0, (2 * 2 + 4 * 1) / 6]


def test_a_static_batch_answers_each_at_its_own_end_when_told_so() -> None:
    run = Run(PolicyConfig("dynamic", max_batch_size=2, release="request"))
    run.play([arrival(0, work(0, tokens=2)), arrival(0, work(1, tokens=6))])
    assert (run.ends[0], run.ends[1]) == ([(Status.OK, 20 * MS)], [(Status.OK, 60 * MS)])


@pytest.mark.parametrize("limit", [2, 3])
def test_no_more_batches_are_in_flight_than_allowed(limit: int) -> None:
    run = Run(PolicyConfig("dynamic", max_batch_size=2, max_inflight_batches=limit))
    run.play([arrival(0, work(k, tokens=5)) for k in range(12)])
    assert max(step.num_running for step in run.steps) == 2 * limit
    assert len(run.ended) == 12


@pytest.mark.parametrize("name", POLICIES)
def test_time_runs_out_in_the_queue_and_while_running_within_one_step(name: str) -> None:
    run = Run(PolicyConfig(name, max_batch_size=1))  # type: ignore[arg-type]
    limit = 3_000 * MS
    run.play(
        [
            arrival(0, work(0, tokens=400, deadline_ns=limit)),
            arrival(1, work(1, deadline_ns=limit + MS)),
        ]
    )
    assert [run.ended[k].status for k in (0, 1)] == [Status.TIMEOUT] * 2
    for request_id, due_ns in ((0, limit), (1, limit + MS)):
        assert due_ns <= run.ends[request_id][0][1] <= due_ns + 2 * run.pass_ns


@pytest.mark.parametrize("name", POLICIES)
def test_a_request_that_started_in_time_is_not_cut_where_only_the_queue_is_limited(name: str) -> None:
    run = Run(PolicyConfig(name, max_batch_size=1))  # type: ignore[arg-type]
    asked = Sampling(max_tokens=400, ignore_eos=True)
    run.play([arrival(0, Work(k, (1, 2), asked, queue_deadline_ns=3_000 * MS)) for k in (0, 1)])
    assert [run.ended[k].status for k in (0, 1)] == [Status.OK, Status.TIMEOUT]


@pytest.mark.parametrize("name", [*POLICIES, CHUNKED])
@pytest.mark.parametrize("at_ms", [1, 45, 150, 165])
def test_one_who_leaves_takes_no_other_along(name: str, at_ms: float) -> None:
    run = Run(config_of(name, max_num_batched_tokens=10))
    run.play([*(arrival(0, work(k, tokens=6)) for k in range(4)), leaving(at_ms, 1)])
    assert all(run.tokens[k] == 6 for k in (0, 2, 3))
    assert run.engine.num_running == run.engine.num_waiting == run.engine.kv_tokens == 0
    assert run.ended[1].status in (Status.CANCELLED, Status.OK)


def test_one_who_leaves_a_batch_that_holds_its_answer_ends_once_and_the_batch_goes_on() -> None:
    run = Run(PolicyConfig("dynamic", max_batch_size=3))
    run.play([*(arrival(0, work(k, tokens=tokens)) for k, tokens in enumerate((2, 9, 5))), leaving(35, 0)])
    assert run.ends[0] == [(Status.CANCELLED, 40 * MS)]
    # The other two are still a batch: the shorter one waits for the longer.
    assert run.ends[1] == run.ends[2] == [(Status.OK, 90 * MS)]


def test_a_text_is_preprocessed_when_the_engine_has_room_for_it_and_not_before() -> None:
    run = Run(PolicyConfig("serial"))
    run.play([arrival(0, work(k, tokens=4, inline=True)) for k in range(3)])
    assert [run.began[key].pre_start_ns for key in range(3)] == [0, 40 * MS, 80 * MS]
    assert [run.began[key].enqueued_ns for key in range(3)] == [0, 40 * MS, 80 * MS]


def test_one_who_leaves_before_its_text_is_preprocessed_never_starts() -> None:
    run = Run(PolicyConfig("serial"))
    run.play([*(arrival(0, work(k, tokens=4, inline=True)) for k in range(3)), leaving(5, 1)])
    assert run.ends[1] == [(Status.CANCELLED, 20 * MS)]  # prompt and first decode step are one iteration
    assert [ids for _, ids in run.starts] == [(0,), (2,)]


@dataclass(frozen=True)
class Plan:
    at_ms: int
    tokens: int
    prompt: int
    inline: bool
    limit_ms: int | None
    leaves_after_ms: int | None


PLANS = st.builds(
    Plan,
    at_ms=st.integers(0, 500),
    tokens=st.integers(1, 12),
    prompt=st.integers(1, 40),
    inline=st.booleans(),
    limit_ms=st.none() | st.integers(1, 300),
    leaves_after_ms=st.none() | st.integers(0, 300),
)


@given(
    name=st.sampled_from([*POLICIES, CHUNKED]),
    release=st.sampled_from(["batch", "request"]),
    batch=st.integers(1, 5),
    num_groups=st.integers(1, 3),
    plans=st.lists(PLANS, max_size=25),
)
def test_every_request_ends_in_exactly_one_way(
    name: str, release: str, batch: int, num_groups: int, plans: list[Plan]
) -> None:
    config = config_of(
        name,
        max_batch_size=batch,
        max_inflight_batches=num_groups if name in ("dynamic", "fixed-window") else 1,
        max_num_batched_tokens=48 if name != CHUNKED else 8,
        release=release,
    )
    run = Run(config)
    happenings = []
    for key, plan in enumerate(plans):
        deadline_ns = None if plan.limit_ms is None else (plan.at_ms + plan.limit_ms) * MS
        one = work(key, tokens=plan.tokens, prompt=plan.prompt, deadline_ns=deadline_ns, inline=plan.inline)
        happenings.append(arrival(plan.at_ms, one))
        if plan.leaves_after_ms is not None:
            happenings.append(leaving(plan.at_ms + plan.leaves_after_ms + 0.5, key))
    run.play(happenings)
    assert sorted(run.ends) == list(range(len(plans)))
    assert all(len(ends) == 1 for ends in run.ends.values())
    assert all(
        run.tokens[key] == plans[key].tokens for key, end in run.ended.items() if end.status is Status.OK
    )
    assert run.engine.num_running == run.engine.num_waiting == run.engine.kv_tokens == 0
    assert all(step.useful_rows <= step.rows <= config.batch_rows for step in run.steps)
    if name == CHUNKED:
        assert all(step.new_tokens <= config.max_num_batched_tokens for step in run.steps)
    started = [key for _, ids in run.starts for key in ids]
    assert len(started) == len(set(started))


def test_a_prompt_in_parts_leaves_every_running_row_its_token_in_every_step() -> None:
    run = Run(config_of(CHUNKED, max_num_batched_tokens=10))
    run.play([arrival(0, work(0, tokens=10)), arrival(25, work(1, prompt=30, tokens=2))])
    assert [(step.kind, step.new_tokens, step.rows) for step in run.steps[3:]] == [
        ("mixed", 10, 1),
        ("mixed", 10, 1),
        ("mixed", 10, 1),
        ("mixed", 4, 2),
        ("decode", 2, 2),
        *[("decode", 1, 1)] * 2,
    ]
    # Each attends to its own past: the row to 7 positions, the prompt to its first 9.
    assert run.steps[3].kv_tokens == 7 + 9
    assert run.starts == [(0, (0,)), (30 * MS, (1,))]
    # In execution from its first part on.
    assert (run.began[1].exec_start_ns, run.began[1].first_token_ns) == (30 * MS, 70 * MS)


def test_one_whose_prompt_is_half_read_leaves_its_place_to_the_next() -> None:
    run = Run(config_of(CHUNKED, max_num_batched_tokens=10, max_batch_size=2))
    run.play(
        [
            arrival(0, work(0, tokens=12)),
            arrival(5, work(1, prompt=90)),
            arrival(6, work(2, tokens=2)),
            leaving(45, 1),
        ]
    )
    assert [run.ended[key].status for key in range(3)] == [Status.OK, Status.CANCELLED, Status.OK]
    assert run.engine.kv_tokens == 0


def test_the_policies_differ_in_capacity_as_they_should() -> None:
    lengths = [4 + 7 * k % 29 for k in range(64)]

    def takes_ns(name: str) -> int:
        run = Run(PolicyConfig(name))  # type: ignore[arg-type]
        run.play([arrival(0, work(k, tokens=length)) for k, length in enumerate(lengths)])
        assert len(run.ended) == len(lengths)
        return run.clock.now_ns()

    serial, window, dynamic, continuous = map(takes_ns, POLICIES)
    assert serial > 2 * window and window >= dynamic > 1.1 * continuous
