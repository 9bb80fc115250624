"""Batching policies: pure functions of the time, what waits, and what runs.

The live engine and the simulators decide by these same functions, so `BatchPolicy.decide` keeps its signature, and
a new policy is one class here, its name in `PolicyName`, and a line in `make_policy`.

Times are integer nanoseconds of one monotonic clock. Seconds as floats would round, and a wait that is over
by one comparison and not by another makes an engine spin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from loadgen_target.config import PolicyConfig


class Waiting(Protocol):
    """A request in the queue, as a policy sees it."""

    @property
    def enqueued_ns(self) -> int: ...
    @property
    def num_prompt_tokens(self) -> int: ...


class Batch(Protocol):
    """A place for one batch: how many rows run in it, and since when none do.

    num_unread_tokens: prompt tokens of its rows that are still to be read; asked for by chunked prefill alone.
    """

    @property
    def num_rows(self) -> int: ...
    @property
    def idle_since_ns(self) -> int: ...
    @property
    def num_unread_tokens(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Admit:
    """Take the first `count` of the queue into the batch at index `group`."""

    group: int
    count: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Admit nothing now. until_ns: when to ask again though nothing happened; None for never."""

    until_ns: int | None = None


Decision = Admit | Wait


class BatchPolicy(Protocol):
    """Decides when waiting requests enter the engine; first come, first served in every policy.

    Before each step the engine asks, acts on the answer, and asks again while batches are left to fill: at most
    once for each of `groups`.
    """

    def decide(self, waiting: Sequence[Waiting], groups: Sequence[Batch], now_ns: int) -> Decision:
        """What to do now; never a Wait until a moment that has passed."""
        ...


@dataclass(frozen=True, slots=True)
class Serial:
    """One request at a time, each alone from its first step to its last."""

    def decide(self, waiting: Sequence[Waiting], groups: Sequence[Batch], now_ns: int) -> Decision:
        idle = _idle(groups)
        if not waiting or idle is None:
            return Wait()
        return Admit(group=idle, count=1)


@dataclass(frozen=True, slots=True)
class FixedWindow:
    """At each tick, everything that waits (up to `max_batch_size`) becomes a batch.

    Ticks lie at multiples of `window_ns`. A tick that finds the engine busy is lost, and the next one counts.
    It takes all that waits, not only what came in its own window: else a backlog is served in small batches.
    """

    max_batch_size: int
    window_ns: int

    def decide(self, waiting: Sequence[Waiting], groups: Sequence[Batch], now_ns: int) -> Decision:
        idle = _idle(groups)
        if not waiting or idle is None:
            return Wait()
        could_start_ns = max(waiting[0].enqueued_ns, groups[idle].idle_since_ns)
        tick_ns = -(-could_start_ns // self.window_ns) * self.window_ns
        if now_ns < tick_ns:
            return Wait(until_ns=tick_ns)
        return Admit(group=idle, count=min(len(waiting), self.max_batch_size))


@dataclass(frozen=True, slots=True)
class Dynamic:
    """A batch starts when it is full, or when its oldest member has waited `max_wait_ns`."""

    max_batch_size: int
    max_wait_ns: int

    def decide(self, waiting: Sequence[Waiting], groups: Sequence[Batch], now_ns: int) -> Decision:
        idle = _idle(groups)
        if not waiting or idle is None:
            return Wait()
        if len(waiting) >= self.max_batch_size:
            return Admit(group=idle, count=self.max_batch_size)
        starts_ns = waiting[0].enqueued_ns + self.max_wait_ns
        if now_ns < starts_ns:
            return Wait(until_ns=starts_ns)
        return Admit(group=idle, count=len(waiting))


@dataclass(frozen=True, slots=True)
class Continuous:
    """Requests join the running batch between any two steps, within rows and tokens of one iteration.

    max_num_batched_tokens: one token for each running row, and the prompts of those that join. The first of
    the queue joins even if its prompt alone is longer, for otherwise it never would.
    splits_prompts: a prompt may be read in parts (chunked prefill), so the last to join needs no room for all of
    its prompt; one that is being read goes before all that wait.
    """

    max_batch_size: int
    max_num_batched_tokens: int
    splits_prompts: bool = False

    def decide(self, waiting: Sequence[Waiting], groups: Sequence[Batch], now_ns: int) -> Decision:
        num_running = groups[0].num_rows
        budget = self.max_num_batched_tokens - num_running
        count = 0
        if self.splits_prompts:
            # A row that reads gives no token in this step, so its place in the budget is its prompt's.
            if unread := groups[0].num_unread_tokens:
                budget += 1 - unread
            while budget > 0 and count < min(len(waiting), self.max_batch_size - num_running):
                budget -= waiting[count].num_prompt_tokens
                count += 1
            return Admit(group=0, count=count) if count else Wait()
        for request in waiting[: self.max_batch_size - num_running]:
            budget -= request.num_prompt_tokens
            if budget < 0 and count > 0:
                break
            count += 1
        return Admit(group=0, count=count) if count else Wait()


def make_policy(config: PolicyConfig) -> BatchPolicy:
    """The policy that `config` names; `null` joins as `continuous` does, without a model behind it."""
    if config.name == "serial":
        return Serial()
    if config.name == "fixed-window":
        return FixedWindow(config.max_batch_size, config.window_ns)
    if config.name == "dynamic":
        return Dynamic(config.max_batch_size, config.max_wait_ns)
    return Continuous(
        config.max_batch_size, config.max_num_batched_tokens, splits_prompts=config.splits_prompts
    )


def _idle(groups: Sequence[Batch]) -> int | None:
    """Index of the first batch without rows."""
    return next((index for index, group in enumerate(groups) if group.num_rows == 0), None)
