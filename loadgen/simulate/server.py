"""SimulatedServer: the bundled server's admission, queue and batches, driven by its own policies.

It does what `loadgen_target.engine` does, step for step and to the nanosecond (a test holds it to that). Between
two events nothing changes but the positions in the cache, so the steps from one event to the next are taken as
one: that is what makes a million requests a matter of seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from loadgen.simulate.cost_model import CostModel
from loadgen.simulate.served import INVALID, OK, REJECTED, TIMEOUT, Arrivals, Served
from loadgen.simulate.steps import Numbers, Prefills, Stretches, steps_until
from loadgen_target.config import ServerConfig
from loadgen_target.policies import BatchPolicy, Wait, make_policy

# A policy looks at the queue's length and at those that may join next; behind these a queue may go on unseen, which
# keeps taking its head cheap however long it is.
_SEEN = 4096
_NEVER = 1 << 62


class _Waiting:
    __slots__ = ("enqueued_ns", "index", "num_prompt_tokens")

    def __init__(self, index: int, enqueued_ns: int, num_prompt_tokens: int) -> None:
        self.index = index
        self.enqueued_ns = enqueued_ns
        self.num_prompt_tokens = num_prompt_tokens


class _Batch:
    """A place for one batch. finishes: (step after which a row has its last token, its index), a heap.

    stretches: the values of one stretch behind those of the other.
    """

    __slots__ = (
        "finishes", "held", "idle_since_ns", "index", "kv_tokens", "num_rows", "steps", "stretches",
        "useful", "useful_sum",
    )  # fmt: skip
    num_unread_tokens = 0  # asked for by chunked prefill alone, which is not simulated

    def __init__(self, index: int) -> None:
        self.index = index
        self.num_rows = 0
        self.idle_since_ns = 0
        self.finishes: list[tuple[int, int]] = []
        self.held: list[int] = []
        self.useful = 0
        self.kv_tokens = 0
        self.steps = 0
        self.useful_sum = 0
        self.stretches: list[int] = []


class SimulatedServer:
    """One server: `serve` takes all requests at once and returns when the last has ended."""

    def __init__(self, config: ServerConfig, cost: CostModel) -> None:
        policy = config.engine.policy
        self._policy: BatchPolicy = make_policy(policy)
        self._holds = policy.is_static and policy.release == "batch"
        self._config = config
        self._cost = cost
        self._batch_rows = policy.batch_rows
        self._room_below = 1 if policy.is_static else policy.batch_rows
        self._num_batches = policy.max_inflight_batches
        delay_ns = round(config.engine.step_delay_s * 1e9)
        self._delay_ns = delay_ns
        self._decode_ns = [0, *(cost.decode_rows_ns(n) + delay_ns for n in range(1, policy.batch_rows + 1))]
        self._kv_ns = round(cost.kv_token_ns)
        timeout_s = config.timeout_s
        self._timeout_ns = _NEVER if timeout_s is None else int(timeout_s * 1e9)
        self._times_running = timeout_s is not None and config.timeout_scope == "request"
        engine = config.engine
        self._pre_ns = round(engine.preprocess_s * 1e9)
        self._inline_ns = self._pre_ns if engine.is_inline else 0

    def serve(self, arrivals: Arrivals) -> Served:  # noqa: PLR0912, PLR0915  # in one piece: a call costs too much
        """Run until the last request has ended."""
        count = arrivals.received_ns.size
        # One more that never comes, so that there always is a next one.
        received: list[int] = [*arrivals.received_ns.tolist(), _NEVER]
        prompts: list[int] = arrivals.prompt_tokens.tolist()
        outputs: list[int] = arrivals.output_tokens.tolist()
        status, enqueued, started, first, last, ended, made, joined, batch_of, batch_sum = (
            [value] * count for value in (OK, -1, -1, -1, -1, -1, 0, 0, 0, 0)
        )
        limit, longest = self._config.max_queue_size, self._config.engine.max_model_len
        decide, cost, decode_ns, kv_ns = self._policy.decide, self._cost, self._decode_ns, self._kv_ns
        holds, timeout_ns, times_running = self._holds, self._timeout_ns, self._times_running
        batches = [_Batch(index) for index in range(self._num_batches)]
        waiting: list[_Waiting] = []
        behind: deque[_Waiting] = deque()
        # In preprocessing: index and when it is done; workers: when each is free.
        preparing: deque[tuple[int, int]] = deque()
        pre_ns = 0 if self._config.engine.is_inline else self._pre_ns
        workers = [0] * self._config.preprocess_workers
        prefills: list[int] = []
        now = following = oldest = 0
        num_waiting = 0

        def enqueue(index: int, moment_ns: int) -> None:
            enqueued[index] = moment_ns
            one = _Waiting(index, moment_ns, prompts[index])
            if behind or len(waiting) >= _SEEN:
                behind.append(one)
            else:
                waiting.append(one)

        def end_held(batch: _Batch, moment_ns: int) -> None:
            """The whole batch is done: its answers leave, and its place is free."""
            for index in batch.held:
                ended[index] = moment_ns
            batch.held.clear()
            batch.num_rows = batch.kv_tokens = 0
            batch.idle_since_ns = moment_ns

        def finish(batch: _Batch, index: int, moment_ns: int) -> None:
            """A row has its last token."""
            last[index] = moment_ns
            made[index] = outputs[index]
            batch_sum[index] += batch.useful_sum
            batch.useful -= 1
            if holds:
                batch.held.append(index)
                if not batch.useful:
                    end_held(batch, moment_ns)
                return
            ended[index] = moment_ns
            batch.num_rows -= 1
            batch.kv_tokens -= prompts[index] + outputs[index]
            if not batch.num_rows:
                batch.idle_since_ns = moment_ns

        while True:
            # What has come; admissions happen only below, so a request is refused or not by what waits now.
            while received[following] <= now:
                index, following = following, following + 1
                if num_waiting >= limit:
                    status[index], ended[index] = REJECTED, received[index]
                elif prompts[index] + outputs[index] > longest:
                    status[index], ended[index] = INVALID, received[index]
                else:
                    num_waiting += 1
                    if pre_ns:
                        done = max(heappop(workers), received[index]) + pre_ns
                        heappush(workers, done)
                        preparing.append((done, index))
                    else:
                        enqueue(index, received[index])
            while preparing and preparing[0][0] <= now:
                done, index = preparing.popleft()
                enqueue(index, done)

            # Nobody's time is up before that of the oldest who is still there.
            while True:
                while oldest < following and (
                    ended[oldest] >= 0 or (started[oldest] >= 0 and not times_running)
                ):
                    oldest += 1
                expires_ns = received[oldest] + timeout_ns
                if expires_ns > now:
                    break
                while waiting and received[waiting[0].index] + timeout_ns <= now:
                    index = waiting.pop(0).index
                    if behind:
                        waiting.append(behind.popleft())
                    status[index], ended[index] = TIMEOUT, now
                    num_waiting -= 1
                while preparing and received[preparing[0][1]] + timeout_ns <= now:
                    index = preparing.popleft()[1]
                    status[index], ended[index] = TIMEOUT, now
                    num_waiting -= 1
                if times_running:
                    for batch in batches:
                        self._expire(batch, now, received, prompts, outputs, status, ended, made, joined)

            # Admit, as often as there are batches.
            admitted: list[tuple[_Batch, list[_Waiting]]] = []
            until = _NEVER
            if waiting and self._has_room(batches):
                for _ in batches:
                    decision = decide(waiting, batches, now)
                    if isinstance(decision, Wait):
                        until = _NEVER if decision.until_ns is None else decision.until_ns
                        break
                    taken = waiting[: decision.count]
                    del waiting[: decision.count]
                    while behind and len(waiting) < _SEEN:
                        waiting.append(behind.popleft())
                    num_waiting -= len(taken)
                    batch = batches[decision.group]
                    batch.num_rows += len(taken)
                    assert batch.num_rows <= self._batch_rows
                    admitted.append((batch, taken))

            for batch, taken in admitted:
                tokens = 0
                for one in taken:
                    tokens += one.num_prompt_tokens
                rows = len(taken)
                start = now
                now += cost.prefill_ns(tokens, rows) + rows * self._inline_ns + self._delay_ns
                prefills += start, now, rows
                batch.useful += rows
                batch.kv_tokens += tokens + rows
                ending = []
                for one in taken:
                    index = one.index
                    started[index], first[index] = start, now
                    joined[index], batch_of[index] = batch.steps, batch.index
                    batch_sum[index] = rows - batch.useful_sum
                    if outputs[index] > 1:
                        heappush(batch.finishes, (batch.steps + outputs[index] - 1, index))
                    else:
                        ending.append(index)
                for index in ending:
                    finish(batch, index, now)

            running = [batch for batch in batches if batch.num_rows]
            if not running:
                if admitted:
                    continue  # all of them had a single token
                moments = [received[following], expires_ns, until if waiting else _NEVER]
                if preparing:
                    moments.append(preparing[0][0])
                moment = min(moments)
                if moment >= _NEVER:
                    break
                now = max(now, moment)
                continue

            # Steps until something happens: a row ends, a request comes that may join, a wait or a limit is over.
            total = growth = 0
            steps = _NEVER
            for batch in running:
                total += decode_ns[batch.num_rows] + kv_ns * batch.kv_tokens
                growth += batch.useful
                left = batch.finishes[0][0] - batch.steps if batch.useful else 1
                steps = min(steps, left)
            growth *= kv_ns
            has_room = steps > 1 and self._has_room(batches)
            if admitted and waiting and has_room:
                steps = 1  # the policy may take more, and was not asked what it would do now
            elif steps > 1:
                moment = min(until, expires_ns)
                if has_room:
                    if num_waiting < limit and received[following] < moment:
                        moment = received[following]
                    if preparing and preparing[0][0] < moment:
                        moment = preparing[0][0]
                if now + steps * total + growth * (steps * (steps - 1) // 2) > moment:
                    steps = steps_until(moment - now, total, growth)

            part = part_growth = 0
            start = now
            for batch in running:
                own = decode_ns[batch.num_rows] + kv_ns * batch.kv_tokens
                part += own
                part_growth += kv_ns * batch.useful
                # The steps of batches before it in turn are in `part`.
                every = total + part_growth
                busy = steps * own + kv_ns * batch.useful * (steps * (steps - 1) // 2)
                batch.stretches += start + part, every, growth, steps, batch.num_rows, batch.useful, busy
                batch.steps += steps
                batch.useful_sum += steps * batch.useful
                batch.kv_tokens += steps * batch.useful
                if batch.useful:
                    finishes = batch.finishes
                    if finishes[0][0] == batch.steps:
                        before = steps - 1
                        end = start + part + before * every + growth * (before * (before - 1) // 2)
                        while finishes and finishes[0][0] == batch.steps:
                            finish(batch, heappop(finishes)[1], end)
                else:
                    end_held(batch, start + part)
            now = start + steps * total + growth * (steps * (steps - 1) // 2)

        assert min(ended, default=0) >= 0, "a request was lost"

        def column(values: list[int]) -> Numbers:
            return np.asarray(values, dtype=np.int64)

        return Served(
            status=np.asarray(status, dtype=np.int8),
            enqueued_ns=column(enqueued),
            exec_start_ns=column(started),
            first_token_ns=column(first),
            last_token_ns=column(last),
            ended_ns=column(ended),
            output_tokens=column(made),
            joined=column(joined),
            batch=np.asarray(batch_of, dtype=np.int8),
            batch_sum=column(batch_sum),
            stretches=tuple(Stretches.of(batch.stretches) for batch in batches),
            prefills=Prefills.of(prefills),
            length_ns=now,
        )

    def _has_room(self, batches: Sequence[_Batch]) -> bool:
        """Whether anybody can be admitted at all: a static batch takes none while it runs, and none has more rows
        than it may. Where nobody can, the policy need not be asked, and who comes meanwhile changes nothing."""
        below = self._room_below
        for batch in batches:  # noqa: SIM110  # any() takes twice as long, and this is asked at each event
            if batch.num_rows < below:
                return True
        return False

    def _expire(
        self,
        batch: _Batch,
        now: int,
        received: Sequence[int],
        prompts: Sequence[int],
        outputs: Sequence[int],
        status: list[int],
        ended: list[int],
        made: list[int],
        joined: Sequence[int],
    ) -> None:
        """Take out of a batch those whose time is up, also one that has all tokens and waits for its batch."""
        latest = now - self._timeout_ns
        was_running = batch.num_rows > 0
        for index in [index for index in batch.held if received[index] <= latest]:
            batch.held.remove(index)
            batch.num_rows -= 1
            batch.kv_tokens -= prompts[index] + outputs[index]
            status[index], ended[index] = TIMEOUT, now
        for pair in [pair for pair in batch.finishes if received[pair[1]] <= latest]:
            index = pair[1]
            batch.finishes.remove(pair)
            batch.num_rows -= 1
            batch.useful -= 1
            made[index] = 1 + batch.steps - joined[index]
            batch.kv_tokens -= prompts[index] + made[index]
            status[index], ended[index] = TIMEOUT, now
        heapify(batch.finishes)
        if was_running and not batch.num_rows:
            batch.idle_since_ns = now
