"""Simulation: the real engine and policy on a simulated clock, with a formula in the place of the model.

What the engine does, without torch and without waiting. `loadgen simulate` has a faster model of the engine, and
tests hold that one against this.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from loadgen_target.clock import SimClock
from loadgen_target.config import PolicyConfig
from loadgen_target.engine import Engine
from loadgen_target.request import Began, Ended, Sampling, Status, StepRecord, Work

_TOKEN = ord("x")


@dataclass(frozen=True, slots=True)
class CostModel:
    """How long a forward pass takes: a fixed part, one for each prompt token, one for each row decoded.

    The fixed part is what a batch shares (reading the weights), and the reason why batching gains at all.
    """

    fixed_ns: int = 8_000_000
    prompt_token_ns: int = 450_000
    row_ns: int = 200_000

    def prefill_ns(self, num_tokens: int, num_rows: int) -> int:
        return self.fixed_ns + self.prompt_token_ns * num_tokens

    def decode_ns(self, num_rows: int, kv_tokens: int) -> int:
        return self.fixed_ns + self.row_ns * num_rows


class Cost(Protocol):
    """How long a forward pass takes, ns; kv_tokens: cache positions that its rows hold."""

    def prefill_ns(self, num_tokens: int, num_rows: int) -> int: ...
    def decode_ns(self, num_rows: int, kv_tokens: int) -> int: ...


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request: when it comes, and its lengths in tokens. leaves_ns: when its client goes away; None for never."""

    at_ns: int
    prompt_tokens: int = 16
    output_tokens: int = 16
    leaves_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """How an arrival ended; both None for one that was refused at receipt."""

    began: Began | None
    ended: Ended | None
    ended_ns: int

    @property
    def status(self) -> Status:
        return Status.REJECTED if self.ended is None else self.ended.status


@dataclass(frozen=True, slots=True)
class Simulation:
    """What came of it: one Served for each arrival, in their order, and every forward pass."""

    served: tuple[Served, ...]
    steps: tuple[StepRecord, ...]
    length_ns: int


class _Shape(Protocol):
    @property
    def num_prompt_tokens(self) -> int: ...
    @property
    def position(self) -> int: ...


class _Part(Protocol):
    @property
    def size(self) -> int: ...


class CostRunner:
    """A Runner that lets time pass as a Cost says, and gives the same token for ever."""

    def __init__(self, clock: SimClock, cost: Cost) -> None:
        self._clock = clock
        self._cost = cost

    def prefill(self, rows: Sequence[_Shape]) -> list[int]:
        self._clock.work(self._cost.prefill_ns(sum(row.num_prompt_tokens for row in rows), len(rows)))
        return [_TOKEN] * len(rows)

    def decode(self, rows: Sequence[_Shape]) -> list[int]:
        self._clock.work(self._cost.decode_ns(len(rows), sum(row.position + 1 for row in rows)))
        return [_TOKEN] * len(rows)

    def mixed(self, rows: Sequence[_Shape], chunks: Sequence[_Part]) -> list[int]:
        """Both at once; what every pass costs is paid once."""
        cost, num_tokens = self._cost, sum(chunk.size for chunk in chunks)
        length_ns = cost.prefill_ns(num_tokens, len(chunks))
        if rows:
            length_ns += cost.decode_ns(len(rows), sum(row.position + 1 for row in rows)) - cost.prefill_ns(
                0, 0
            )
        self._clock.work(max(length_ns, 0))
        return [_TOKEN] * (len(rows) + len(chunks))

    def move(self, source: int, target: int, length: int) -> None:
        """Nothing is cached."""


def simulate(
    policy: PolicyConfig,
    arrivals: Iterable[Arrival],
    cost: Cost,
    *,
    max_queue_size: int | None = None,
    timeout_ns: int | None = None,
    times_queue_only: bool = False,
) -> Simulation:
    """Serve `arrivals` (ascending in time) until the last has ended.

    max_queue_size: refuse what finds this many waiting. timeout_ns: from arrival to the end, or to the start of
    execution with `times_queue_only`. As in the real server, what comes during a step is seen after it.
    """
    clock = SimClock()
    engine = Engine(policy, CostRunner(clock, cost), clock)
    coming = list(enumerate(arrivals))
    leaving = sorted((arrival.leaves_ns, k) for k, arrival in coming if arrival.leaves_ns is not None)
    began: dict[int, Began] = {}
    served: dict[int, Served] = {}
    steps: list[StepRecord] = []
    while True:
        while coming and coming[0][1].at_ns <= clock.now_ns():
            index, arrival = coming.pop(0)
            if max_queue_size is not None and engine.num_waiting >= max_queue_size:
                served[index] = Served(None, None, arrival.at_ns)
            else:
                engine.submit(_work(index, arrival, timeout_ns, times_queue_only=times_queue_only))
        while leaving and leaving[0][0] <= clock.now_ns():
            engine.abort(leaving.pop(0)[1], Status.CANCELLED)
        for outcome in engine.step():
            if outcome.record is not None:
                steps.append(outcome.record)
            for emission in outcome.emissions:
                if emission.began is not None:
                    began[emission.request_id] = emission.began
                if emission.ended is not None:
                    index = emission.request_id
                    served[index] = Served(began.get(index), emission.ended, clock.now_ns())
        moments = [engine.wake_ns(), coming[0][1].at_ns if coming else None]
        moments += [leaving[0][0]] if leaving and engine.num_waiting + engine.num_running else []
        known = [moment_ns for moment_ns in moments if moment_ns is not None]
        if not known:
            break
        clock.jump_to(min(known))
    return Simulation(tuple(served[k] for k in sorted(served)), tuple(steps), clock.now_ns())


def _work(index: int, arrival: Arrival, timeout_ns: int | None, *, times_queue_only: bool) -> Work:
    deadline_ns = None if timeout_ns is None else arrival.at_ns + timeout_ns
    return Work(
        request_id=index,
        prompt=(_TOKEN,) * arrival.prompt_tokens,
        sampling=Sampling(max_tokens=arrival.output_tokens, ignore_eos=True),
        queue_deadline_ns=deadline_ns if times_queue_only else None,
        deadline_ns=None if times_queue_only else deadline_ns,
        enqueued_ns=arrival.at_ns,
    )
