"""Admission and the books, without an engine: who is refused, who is handed on, and who never gets there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from loadgen_target.config import EngineConfig, PolicyConfig, ServerConfig
from loadgen_target.exchange import Exchange
from loadgen_target.http import App
from loadgen_target.openai import parse_request
from loadgen_target.request import Ended, Outcome, Status, Work
from loadgen_target.service import Service, State


class FakeEngine:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.submitted: list[Work] = []
        self.aborted: list[tuple[int, Status]] = []

    def submit(self, work: Work) -> None:
        self.submitted.append(work)

    def abort(self, request_id: int, status: Status) -> None:
        self.aborted.append((request_id, status))


def service_of(*, preprocess_s: float = 0.0, **settings: Any) -> tuple[Service, FakeEngine]:
    engine = EngineConfig(PolicyConfig(), preset="tiny", max_model_len=512, preprocess_s=preprocess_s)
    service, fake = Service(ServerConfig(engine, **settings)), FakeEngine()
    service.engine = fake  # type: ignore[assignment]  # the three calls that are made of it
    service.state = State.READY
    return service, fake


def asking(service: Service) -> Exchange:
    """A request that was taken and understood."""
    exchange = service.open(None)
    assert service.admit(exchange) is None
    exchange.asked = parse_request("text", b'{"prompt": "Hello"}', max_model_len=512, default_seed=0)
    return exchange


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(test())  # type: ignore[arg-type]  # an async function


def test_the_65th_that_waits_is_refused_and_those_in_preprocessing_wait() -> None:
    async def test() -> None:
        service, engine = service_of(preprocess_s=0.2)
        tasks = [asyncio.create_task(service.submit(asking(service))) for _ in range(64)]
        while service.num_preprocess_waiting < 64:
            await asyncio.sleep(0)
        assert service.num_waiting == 64
        refusal = service.admit(service.open(None))
        assert refusal is not None and refusal.http_status == 429 and "64" in refusal.message
        assert not engine.submitted
        for task in tasks:
            task.cancel()
        service.close_books()

    run(test)


def test_one_that_starts_makes_room_for_one_more() -> None:
    async def test() -> None:
        service, _ = service_of(max_queue_size=1)
        first = asking(service)
        assert service.admit(service.open(None)) is not None
        service._on_outcome(Outcome((first.request_id,), (), None, 0, 1, 0))
        assert service.num_waiting == 0 and service.admit(service.open(None)) is None

    run(test)


@pytest.mark.parametrize("path", ["/health", "/v1/models"])
def test_what_is_taken_for_a_sign_of_readiness_waits_for_the_model(path: str) -> None:
    service, _ = service_of()

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(App(service, dict))
        async with httpx.AsyncClient(transport=transport, base_url="http://target") as client:
            return await client.get(path)

    service.state = State.LOADING
    assert asyncio.run(ask()).status_code == 503
    service.state = State.READY
    assert asyncio.run(ask()).status_code == 200


@pytest.mark.parametrize("state", [State.LOADING, State.DRAINING, State.DEAD])
def test_a_server_that_is_not_ready_says_503_and_in_what_state_it_is(state: State) -> None:
    service, _ = service_of()
    service.state = state
    refusal = service.admit(service.open(None))
    assert refusal is not None and refusal.http_status == 503 and state.value in refusal.message


def test_time_runs_out_in_preprocessing_and_the_engine_never_hears_of_it() -> None:
    async def test() -> None:
        service, engine = service_of(preprocess_s=0.3, timeout_s=0.05)
        exchange = asking(service)
        await service.submit(exchange)
        (emission,) = await exchange.take()
        assert isinstance(emission.ended, Ended) and emission.ended.status is Status.TIMEOUT
        assert not engine.submitted and service.num_preprocess_waiting == 0

    run(test)


def test_one_who_leaves_in_preprocessing_is_not_handed_to_the_engine() -> None:
    async def test() -> None:
        service, engine = service_of(preprocess_s=0.05)
        exchange = asking(service)
        submitting = asyncio.create_task(service.submit(exchange))
        await asyncio.sleep(0)
        exchange.leave()
        await submitting
        assert not engine.submitted
        service.close(exchange, Status.CANCELLED)
        assert service.num_waiting == service.num_open == 0 and service.idle.is_set()

    run(test)


def test_who_ends_before_the_engine_said_so_is_aborted_there_and_counted_once() -> None:
    async def test() -> None:
        service, engine = service_of()
        exchange = asking(service)
        await service.submit(exchange)
        service.close(exchange, Status.CANCELLED)
        assert engine.aborted == [(exchange.request_id, Status.CANCELLED)]
        with pytest.raises(AssertionError):
            service.close(exchange, Status.OK)

    run(test)


@pytest.mark.parametrize(
    ("served", "over_s", "waiting", "retry_after_s"),
    [(0, 1, 3, 1), (10, 19, 3, 6), (10, 20, 60, 30), (10, 1, 3, 1)],
)
def test_who_is_refused_is_told_when_the_queue_should_be_empty(
    served: int, over_s: float, waiting: int, retry_after_s: int
) -> None:
    service, _ = service_of(max_queue_size=waiting)
    for _ in range(served):
        exchange = asking(service)
        exchange.ended = Ended(Status.OK, "length", 0, None, 0, None, 0)
        exchange.finished_ns = time.monotonic_ns() - round(over_s * 1e9)
        service.close(exchange, Status.OK)
    for _ in range(waiting):
        asking(service)
    refusal = service.admit(service.open(None))
    assert refusal is not None and refusal.retry_after_s == retry_after_s


def test_the_engines_death_ends_every_request_in_flight() -> None:
    async def test() -> None:
        service, _ = service_of()
        waiting, running = asking(service), asking(service)
        for exchange in (waiting, running):
            await service.submit(exchange)
        service._on_outcome(Outcome((running.request_id,), (), None, 1, 1, 0))
        service._on_death("exit status -9")
        for exchange in (waiting, running):
            (emission,) = await exchange.take()
            assert emission.ended is not None and emission.ended.status is Status.ERROR
        assert service.state is State.DEAD and service.died.is_set()

    run(test)
