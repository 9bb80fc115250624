"""Worker: sends its share of a schedule, each request at its moment, and hands out records as they end.

It takes (share, target, start) and yields record batches; it knows nothing of other workers, so it runs the
same in this process, in another one or on another machine.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from loadgen.replay.clock import RunClock
from loadgen.replay.descriptors import least_connections
from loadgen.replay.dialects.dialect import Dialect
from loadgen.replay.exchange import Exchange
from loadgen.replay.familiar import Familiar
from loadgen.replay.health import Health, HealthMeter
from loadgen.replay.httpx_transport import HttpxTransport
from loadgen.replay.payloads import Payloads
from loadgen.replay.pool import ConnectionPool
from loadgen.replay.record_batch import drained, record_batch, record_batch_in_steps
from loadgen.replay.request_record import Outcome, Phase
from loadgen.replay.retry import RetryPolicy
from loadgen.replay.target import Target, Timeouts
from loadgen.replay.timer import make_timer
from loadgen.replay.transport import Transport

_FLUSH_EVERY_S = 0.5  # what a SIGKILL can cost; a flush of some hundred records takes about 1 ms
_PROGRESS_EVERY_S = 0.25
_BUILD_SLICE_NS = 200_000  # of making payloads ahead, between two looks at the sockets
# A connection that is opened within a tie holds up the requests behind it by about 0.1 ms.
_LEAST_WARM, _MOST_WARM = 8, 512
_SLACK_NS = 2_000_000  # nothing but sends and reads this close to a planned send


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """What all workers of a run share.

    max_concurrency: cap on requests in flight; None (an open loop) unless asked for.
    realtime: run before ordinary processes, where the system permits it.
    drain_s: how long after the last planned send to wait for answers.
    retries: of rejected requests. sessions_wait: a turn of a session leaves when the one before has ended.
    num_warmup: requests before the start, one after another, in each worker.
    warm_connections: opened before the start; None: as many as the plan sends at one moment.
    transport: one of TRANSPORT_NAMES. secrets: never written down.
    """

    target: Target
    timeouts: Timeouts
    max_concurrency: int | None = None
    drain_s: float = 60.0
    warm_connections: int | None = None
    realtime: bool = False
    transport: str = "fast"
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    sessions_wait: bool = False
    num_warmup: int = 0
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def redact(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


@dataclass(frozen=True, slots=True)
class Progress:
    """What a worker has done so far, and what ended since it last said so.

    recent: (latency_s from planned, ttft_s or None) of the requests that succeeded since the last progress.
    """

    worker: int
    elapsed_ns: int  # on the run's clock; negative before the start
    num_sent: int
    num_in_flight: int
    outcomes: dict[str, int]
    recent: tuple[tuple[float, float | None], ...]
    lateness_max_s: float


class Worker:
    """One share of one run, on the event loop that `run` is awaited on.

    share: rows of a schedule's table, in order. on_batch gets RequestRecords, on_progress a Progress.
    """

    def __init__(
        self,
        worker: int,
        share: pa.Table,
        settings: WorkerSettings,
        dialect: Dialect,
        payloads: Payloads,
        on_batch: Callable[[pa.RecordBatch], None],
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._worker = worker
        self._share = share
        self._settings = settings
        self._dialect = dialect
        self._payloads = payloads
        self._on_batch = on_batch
        self._on_progress = on_progress
        self._planned_ns: list[int] = share.column("planned_ns").to_pylist()
        self._familiar = Familiar()
        self._next = 0
        self._waiting: deque[Exchange] = deque()  # for a slot below max_concurrency
        self._retrying: dict[Exchange, asyncio.TimerHandle] = {}
        # Of each session whose turn is on its way, the turns that wait for it. An extra copy is another session.
        self._turns: dict[int, deque[Exchange]] = {}
        self._session: list[int | None] = _sessions(share) if settings.sessions_wait else []
        self._warmup: list[Exchange] = []
        self._warmup_ended: asyncio.Future[None] | None = None
        self._num_in_flight = 0
        self._num_sent = 0
        self._ended: list[Exchange] = []
        self._outcomes: Counter[str] = Counter()
        self._recent: list[tuple[float, float | None]] = []
        self._lateness_max_ns = 0
        self._is_stopping = False
        self._clock = RunClock(0)  # shared with the transport, which is made before there is a start
        self._fault: BaseException | None = None
        self._finished: asyncio.Event = asyncio.Event()

    async def prepare(self) -> None:
        """Make the first payloads and open the first connections, before there is a start to be late for."""
        self._payloads.build_ahead(lambda: True)
        kind = HttpxTransport if self._settings.transport == "httpx" else ConnectionPool
        self._pool: Transport = kind(
            self._settings.target, self._settings.timeouts, self._clock, self._exchange_ended
        )
        await self._pool.warm(min(self._num_warm_connections(), len(self._planned_ns)))

    def _num_warm_connections(self) -> int:
        if self._settings.warm_connections is not None:
            return self._settings.warm_connections
        planned_ns = np.array(self._planned_ns, dtype=np.int64)
        at_once = least_connections(planned_ns, self._settings.max_concurrency)
        return min(max(at_once, _LEAST_WARM), _MOST_WARM)

    async def warm_up(self) -> None:
        """Send the warm-up, one request after another, and wait for its end. Ends early on `stop`."""
        loop = asyncio.get_running_loop()
        sweeper = loop.create_task(self._sweep_forever())
        for number in range(self._settings.num_warmup):
            if self._is_stopping:
                break
            index = number % len(self._planned_ns)
            exchange = Exchange(
                index, self._clock.now_ns(), self._dialect, stream=self._payloads.stream_of(index)
            )
            exchange.phase = Phase.WARMUP
            exchange.warmup_copy = -1 - number // len(self._planned_ns)
            self._warmup_ended = loop.create_future()
            self._pool.dispatch(exchange, self._payloads.warmup(number))
            await self._warmup_ended
        sweeper.cancel()
        await asyncio.gather(sweeper, return_exceptions=True)

    async def _sweep_forever(self) -> None:
        while True:
            await asyncio.sleep(self._settings.timeouts.sweep_every_s)
            self._pool.sweep()

    async def run(self, clock: RunClock) -> Health:
        """Send everything, wait for the answers, return how this process fared. Ends early on `stop`."""
        self._clock.start_monotonic_ns = clock.start_monotonic_ns
        for exchange in self._warmup:
            exchange.shift(-clock.start_monotonic_ns)
        self._ended += self._warmup
        loop = asyncio.get_running_loop()
        # What exists now lives as long as the run; collections need not look at it again. Exchanges hold no
        # cycles, so collecting waits for moments without a send due (see _tick).
        gc.collect()
        gc.freeze()
        gc.disable()
        health = HealthMeter(loop, clock)
        self._timer = make_timer(loop, self._send_due)
        ticker = loop.create_task(self._tick())
        # A fault of ours in a callback would otherwise be logged, and the run go on without it.
        loop.set_exception_handler(self._break)
        ticker.add_done_callback(
            lambda task: None if task.cancelled() else self._break(loop, {"exception": task.exception()})
        )
        try:
            self._arm()
            await self._finished.wait()
            if self._fault is not None:
                raise self._fault
        finally:
            loop.set_exception_handler(None)
            ticker.cancel()
            await asyncio.gather(ticker, return_exceptions=True)
            self._timer.close()
            await self._pool.close()
            gc.enable()
            gc.unfreeze()
        self._flush()
        self._report_progress()
        return health.stop(self._pool.count)

    def stop(self) -> None:
        """End now: what is in flight becomes unfinished, the rest not_sent."""
        if self._is_stopping:
            return
        self._is_stopping = True
        self._pool.stop_all(Outcome.UNFINISHED)
        for exchange, handle in self._retrying.items():
            handle.cancel()
            self._end(exchange)  # rejected: the retry it waited for does not come
        self._retrying.clear()
        while self._waiting:
            self._give_up(self._waiting.popleft())
        for turns in self._turns.values():
            for exchange in turns:
                self._give_up(exchange)
        self._turns.clear()
        while self._next < len(self._planned_ns):
            self._give_up(self._new_exchange())
        self._finished.set()

    def _break(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the worker with the fault that happened outside of `run`: its share counts as lost."""
        self._fault = context.get("exception") or RuntimeError(str(context.get("message")))
        self._finished.set()

    def _arm(self) -> None:
        if self._next < len(self._planned_ns):
            self._timer.arm(self._clock.monotonic_ns(self._planned_ns[self._next]))

    def _send_due(self) -> None:
        """Send everything whose moment has come, in order; one that is late goes at once."""
        planned_ns, num_requests = self._planned_ns, len(self._planned_ns)
        while self._next < num_requests and not self._is_stopping:
            now_ns = self._clock.now_ns()
            if planned_ns[self._next] > now_ns:
                break
            exchange = self._new_exchange()
            # Taken in order even where a cap delays the send, so that payloads keep their request.
            payload = self._payloads.take()
            if self._session and self._waits_for_its_turn(exchange, payload, now_ns):
                continue
            self._dispatch_or_wait(exchange, payload)
        self._arm()
        self._build_ahead()

    def _new_exchange(self) -> Exchange:
        index = self._next
        self._next = index + 1
        return Exchange(
            index,
            self._planned_ns[index],
            self._dialect,
            stream=self._payloads.stream_of(index),
            familiar=self._familiar,
        )

    def _waits_for_its_turn(self, exchange: Exchange, payload: bytes, now_ns: int) -> bool:
        """Whether a former turn of its session is on its way; then the exchange is queued behind that."""
        session = self._session[exchange.index]
        if session is None:
            return False
        turns = self._turns.get(session)
        if turns is None:
            self._turns[session] = deque()
            return False
        # Taken up in time: what follows is the conversation's wait, not our lateness.
        exchange.dispatched_ns = now_ns
        exchange.held_payload = payload
        turns.append(exchange)
        return True

    def _release_next_turn(self, ended: Exchange) -> None:
        session = self._session[ended.index]
        if session is None or self._is_stopping:
            return
        turns = self._turns[session]
        if not turns:
            del self._turns[session]
            return
        # After a failure, too: which load is sent must not depend on how the target fares.
        following = turns.popleft()
        following.released_ns = self._clock.now_ns()
        self._dispatch_held(following)

    def _dispatch_held(self, exchange: Exchange) -> None:
        payload, exchange.held_payload = exchange.held_payload, None
        assert payload is not None
        self._dispatch_or_wait(exchange, payload)

    def _dispatch_or_wait(self, exchange: Exchange, payload: bytes) -> None:
        cap = self._settings.max_concurrency
        if cap is not None and self._num_in_flight >= cap:
            exchange.held_payload = payload
            self._waiting.append(exchange)
        else:
            self._dispatch(exchange, payload)

    def _dispatch(self, exchange: Exchange, payload: bytes) -> None:
        if self._settings.retries.max_retries:
            exchange.held_payload = payload
        self._num_in_flight += 1
        self._num_sent += exchange.num_retries == 0
        self._pool.dispatch(exchange, payload)
        assert exchange.dispatched_ns is not None
        self._lateness_max_ns = max(self._lateness_max_ns, exchange.dispatched_ns - exchange.planned_ns)

    def _exchange_ended(self, exchange: Exchange) -> None:
        if exchange.phase is Phase.WARMUP:
            self._warmup.append(exchange)
            assert self._warmup_ended is not None
            self._warmup_ended.set_result(None)
            return
        self._num_in_flight -= 1
        if not (exchange.outcome is Outcome.REJECTED and self._will_retry(exchange)):
            exchange.held_payload = None
            self._end(exchange)
            if self._session:
                self._release_next_turn(exchange)
        cap = self._settings.max_concurrency
        while self._waiting and not self._is_stopping and (cap is None or self._num_in_flight < cap):
            self._dispatch_held(self._waiting.popleft())
        if self._is_done():
            self._finished.set()

    def _will_retry(self, exchange: Exchange) -> bool:
        """Plan the next attempt of a rejected exchange, if there is to be one."""
        wait_s = self._settings.retries.wait_s(exchange.num_retries, exchange.retry_after_s)
        if wait_s is None or self._is_stopping:
            return False
        loop = asyncio.get_running_loop()
        self._retrying[exchange] = loop.call_later(wait_s, self._retry, exchange)
        return True

    def _retry(self, exchange: Exchange) -> None:
        del self._retrying[exchange]
        exchange.retry()
        self._dispatch_held(exchange)

    def _end(self, exchange: Exchange) -> None:
        assert exchange.outcome is not None
        self._outcomes[exchange.outcome] += 1
        self._ended.append(exchange)
        if exchange.outcome is Outcome.OK and exchange.last_token_ns is not None:
            ttft_s = (exchange.token_ns[0] - exchange.planned_ns) / 1e9 if exchange.token_ns else None
            self._recent.append(((exchange.last_token_ns - exchange.planned_ns) / 1e9, ttft_s))

    def _is_done(self) -> bool:
        return (
            self._next == len(self._planned_ns)
            and not self._waiting
            and not self._retrying
            and self._num_in_flight == 0
        )

    def _give_up(self, exchange: Exchange) -> None:
        exchange.stop(Outcome.NOT_SENT, self._clock.now_ns())
        exchange.end_ns = exchange.dispatched_ns = None
        self._outcomes[Outcome.NOT_SENT] += 1
        self._ended.append(exchange)

    def _build_ahead(self) -> None:
        now_ns = self._clock.now_ns()
        until_ns = now_ns + _BUILD_SLICE_NS
        if self._next < len(self._planned_ns) and self._planned_ns[self._next] - now_ns < _SLACK_NS:
            return
        self._payloads.build_ahead(lambda: self._clock.now_ns() < until_ns)

    async def _tick(self) -> None:
        """What need not be exact: limits, flushes, progress, the end of the drain."""
        every_s = self._settings.timeouts.sweep_every_s
        drain_ends_ns = self._planned_ns[-1] + round(self._settings.drain_s * 1e9)
        flush_at_ns = progress_at_ns = 0
        while True:
            await asyncio.sleep(every_s)
            self._pool.sweep()
            self._build_ahead()
            now_ns = self._clock.now_ns()
            if now_ns >= progress_at_ns:
                progress_at_ns = now_ns + round(_PROGRESS_EVERY_S * 1e9)
                self._report_progress()
            if now_ns >= flush_at_ns:
                flush_at_ns = now_ns + round(_FLUSH_EVERY_S * 1e9)
                await self._flush_between_sends()
                if self._has_slack(now_ns):
                    gc.collect(0)
            if now_ns > drain_ends_ns:
                self.stop()

    def _has_slack(self, now_ns: int) -> bool:
        return self._next == len(self._planned_ns) or self._planned_ns[self._next] - now_ns > 10 * _SLACK_NS

    async def _flush_between_sends(self) -> None:
        """Hand out what has ended, a column at a time: at once it would hold up sends for milliseconds."""
        if not self._ended:
            return
        ended, self._ended = self._ended, []
        steps = record_batch_in_steps(ended, self._share, self._worker, self._settings.redact)
        try:
            while True:
                next(steps)
                await asyncio.sleep(0)
        except StopIteration as done:
            self._on_batch(done.value)
        except asyncio.CancelledError:
            self._on_batch(drained(steps))  # the run ended meanwhile: nothing of it is lost
            raise

    def _flush(self) -> None:
        if self._ended:
            ended, self._ended = self._ended, []
            self._on_batch(record_batch(ended, self._share, self._worker, self._settings.redact))

    def _report_progress(self) -> None:
        recent, self._recent = tuple(self._recent), []
        self._on_progress(
            Progress(
                worker=self._worker,
                elapsed_ns=self._clock.now_ns(),
                num_sent=self._num_sent,
                num_in_flight=self._num_in_flight,
                outcomes=dict(self._outcomes),
                recent=recent,
                lateness_max_s=self._lateness_max_ns / 1e9,
            )
        )


def _sessions(share: pa.Table) -> list[int | None]:
    """The session of each row, as one number; an extra copy of a request is in a session of its own."""
    return [
        None if session is None else (session << 16) + copy
        for session, copy in zip(
            share.column("session").to_pylist(), share.column("copy").to_pylist(), strict=True
        )
    ]
