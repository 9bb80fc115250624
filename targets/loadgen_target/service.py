"""Service: admission, the engine's ends, and the books of one server. HTTP stands in front of it."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from dataclasses import dataclass
from enum import Enum

from loadgen_target.config import ServerConfig
from loadgen_target.engine_process import EngineProcess
from loadgen_target.exchange import Exchange
from loadgen_target.log import REQUEST_SCHEMA, STEP_SCHEMA, ParquetLog, request_row, step_row
from loadgen_target.meters import Meters
from loadgen_target.request import Emission, Ended, Outcome, Status, Work
from loadgen_target.stages import Preprocessor, make_tokenizer

_RETRY_AFTER_S = (1, 30)
_RATE_OVER = 64  # answers over which the served rate is taken


class State(Enum):
    """Where the server is in its life; only READY takes requests."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    DEAD = "the engine has died"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not taken: the status code, why, and when to come again."""

    http_status: int
    message: str
    retry_after_s: int


class Service:
    """One engine and all requests in flight. Lives on one event loop."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.state = State.LOADING
        self.death: str | None = None
        self.died = asyncio.Event()
        engine, policy = config.engine, config.engine.policy
        self.policy_name = policy.name
        self.meters = Meters(
            config.served_model_name, policy.num_slots, policy.num_slots * engine.max_model_len
        )
        self._preprocessor = Preprocessor(make_tokenizer(engine), config.preprocess_workers)
        self._request_log = ParquetLog(config.request_log, REQUEST_SCHEMA) if config.request_log else None
        self._step_log = ParquetLog(config.step_log, STEP_SCHEMA) if config.step_log else None
        self._exchanges: dict[int, Exchange] = {}
        self._next_id = 0
        self._num_waiting = 0
        self._finish_s: deque[float] = deque(maxlen=_RATE_OVER)
        self.idle = asyncio.Event()
        self.idle.set()
        self.engine = self._new_engine()

    async def start_engine(self) -> bool:
        """Start the engine's process and wait until its model stands, or until it has died; whether it stands."""
        await self.engine.start()
        waits = [asyncio.create_task(event.wait()) for event in (self.engine.ready, self.died)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self.death is not None:
            return False
        self.meters.know_device(self.engine.facts or {})
        return True

    async def restart_engine(self) -> bool:
        """A new process in the place of the one that died; requests are refused until its model stands."""
        self.state, self.death = State.LOADING, None
        self.died.clear()
        self.meters.count_restart()
        self.engine = self._new_engine()
        return await self.start_engine()

    @property
    def num_waiting(self) -> int:
        """Requests received and not yet in execution, those in preprocessing included."""
        return self._num_waiting

    @property
    def num_open(self) -> int:
        """Requests received and not yet ended."""
        return len(self._exchanges)

    @property
    def num_preprocess_waiting(self) -> int:
        return self._preprocessor.num_waiting

    def open(self, x_request_id: str | None) -> Exchange:
        """A new request, stamped now."""
        self._next_id += 1
        exchange = Exchange(self._next_id, x_request_id, time.monotonic_ns(), time.time_ns())
        self._exchanges[exchange.request_id] = exchange
        self.idle.clear()
        return exchange

    def admit(self, exchange: Exchange) -> Refusal | None:
        """Count the request as waiting, or refuse it: at receipt, before its body costs anything."""
        if self.state is not State.READY:
            return Refusal(503, f"not taking requests: {self.state.value}", self._retry_after_s())
        if self._num_waiting >= self.config.max_queue_size:
            return Refusal(
                self.config.overload_status,
                f"{self._num_waiting} requests wait, and the limit is {self.config.max_queue_size}",
                self._retry_after_s(),
            )
        exchange.is_waiting = True
        self._num_waiting += 1
        return None

    async def submit(self, exchange: Exchange) -> None:
        """Preprocess and hand to the engine. Its answer, a timeout included, comes into the mailbox."""
        asked = exchange.asked
        assert asked is not None
        timeout_s = self.config.timeout_s
        deadline_ns = None if timeout_s is None else exchange.recv_ns + int(timeout_s * 1e9)
        prompt = asked.prompt
        if not self.config.engine.is_inline:
            remaining_s = None if deadline_ns is None else (deadline_ns - time.monotonic_ns()) * 1e-9
            try:
                prepared = await asyncio.wait_for(self._preprocessor.prepare(prompt), remaining_s)
            except TimeoutError:
                exchange.push(_cut(exchange, Status.TIMEOUT))
                return
            exchange.pre_start_ns, exchange.pre_end_ns = prepared.start_ns, prepared.end_ns
            prompt = prepared.tokens
        if exchange.is_gone or exchange.ended is not None:
            return
        queue_only = self.config.timeout_scope == "queue"
        self.engine.submit(
            Work(
                request_id=exchange.request_id,
                prompt=prompt,
                sampling=asked.sampling,
                queue_deadline_ns=deadline_ns if queue_only else None,
                deadline_ns=None if queue_only else deadline_ns,
                pre_start_ns=exchange.pre_start_ns,
                pre_end_ns=exchange.pre_end_ns,
                enqueued_ns=time.monotonic_ns(),
            )
        )

    def close(self, exchange: Exchange, status: Status) -> None:
        """The request has ended, in this way: free what it holds, and write it down. Once a request."""
        assert exchange.status is None
        exchange.status = status
        if exchange.finished_ns is None:
            exchange.finished_ns = time.monotonic_ns()
        self._exchanges.pop(exchange.request_id, None)
        self._stop_waiting(exchange)
        if exchange.ended is None and exchange.asked is not None:
            self.engine.abort(exchange.request_id, status)
        if status is Status.OK:
            self._finish_s.append(exchange.finished_ns * 1e-9)
        self.meters.count_end(exchange)
        if self._request_log is not None:
            self._request_log.append(request_row(exchange, self.policy_name))
        if not self._exchanges:
            self.idle.set()

    def end_all(self, status: Status) -> None:
        """Tell every request in flight that it will get no more."""
        for exchange in list(self._exchanges.values()):
            if exchange.ended is None:
                exchange.push(_cut(exchange, status))
                self.engine.abort(exchange.request_id, status)

    def close_books(self) -> None:
        """Give the logs their final names."""
        self._preprocessor.close()
        for log in (self._request_log, self._step_log):
            if log is not None:
                log.close()

    def _new_engine(self) -> EngineProcess:
        return EngineProcess(self.config.engine, self._on_outcome, self._on_death)

    def _stop_waiting(self, exchange: Exchange) -> None:
        if exchange.is_waiting:
            exchange.is_waiting = False
            self._num_waiting -= 1

    def _on_outcome(self, outcome: Outcome) -> None:
        for request_id in outcome.started:
            if (exchange := self._exchanges.get(request_id)) is not None:
                self._stop_waiting(exchange)
        for emission in outcome.emissions:
            exchange = self._exchanges.get(emission.request_id)
            if exchange is not None and exchange.ended is None:
                exchange.push(emission)
        self.meters.count_step(outcome)
        if self._step_log is not None and (row := step_row(outcome)) is not None:
            self._step_log.append(row)

    def _on_death(self, reason: str) -> None:
        self.state = State.DEAD
        self.death = reason
        self.end_all(Status.ERROR)
        self.died.set()

    def _retry_after_s(self) -> int:
        """Seconds until what waits now is served at the recent rate, within 1 and 30."""
        least_s, most_s = _RETRY_AFTER_S
        if len(self._finish_s) < 2:
            return least_s
        rate = len(self._finish_s) / max(time.monotonic() - self._finish_s[0], 1e-3)
        return min(most_s, max(least_s, math.ceil(self._num_waiting / rate)))


def _cut(exchange: Exchange, status: Status) -> Emission:
    return Emission(
        exchange.request_id,
        (),
        exchange.began,
        Ended(
            status=status,
            finish_reason=None,
            matched_stop=0,
            last_token_ns=None,
            output_tokens=exchange.output_tokens,
            mean_batch=None,
            steps=0,
        ),
    )
