"""What a target tells of itself while it is loaded, and what becomes of one that does not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx
import pytest

from loadgen.replay.clock import RunClock
from loadgen.telemetry.server_metrics import SCHEMA, ServerMetrics

PAGE = "vllm:num_requests_waiting 3\nvllm:num_requests_running 8\npython_gc_objects 7\n"


class Steps(RunClock):
    """A clock that is 1 s further each time it is asked."""

    def now_ns(self) -> int:
        object.__setattr__(self, "start_monotonic_ns", self.start_monotonic_ns + 10**9)
        return self.start_monotonic_ns


@dataclass
class Asked:
    """Answers in turn, then none for ever: the sampler hangs there until it is cancelled."""

    answers: Iterator[Callable[[], httpx.Response]]
    requests: list[httpx.Request] = field(default_factory=list)
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = next(self.answers, None)
        if answer is None:
            self.is_over.set()
            await asyncio.Event().wait()
        assert answer is not None
        return answer()


def sampled(*answers: Callable[[], httpx.Response]) -> tuple[ServerMetrics, Asked]:
    """The sampler after these answers, cancelled while it waits for one more."""

    async def sample() -> tuple[ServerMetrics, Asked]:
        asked = Asked(iter(answers))
        probe = ServerMetrics(
            "http://target", (("x-key", "k"),), every_s=0, transport=httpx.MockTransport(asked)
        )
        task = asyncio.create_task(probe.sample_forever(Steps(0)))
        over = asyncio.create_task(asked.is_over.wait())
        await asyncio.wait([task, over], return_when=asyncio.FIRST_COMPLETED)
        for one in (task, over):
            one.cancel()
        await asyncio.gather(task, over, return_exceptions=True)
        return probe, asked

    return asyncio.run(sample())


def page(text: str = PAGE, status: int = 200) -> Callable[[], httpx.Response]:
    return lambda: httpx.Response(status, text=text)


def dead() -> httpx.Response:
    raise httpx.ConnectError("nobody listens")


def test_each_answer_is_a_row_a_series_on_the_clock_of_the_run() -> None:
    probe, asked = sampled(page(), page("vllm:num_requests_waiting 5\n"))
    assert probe.table().schema == SCHEMA
    assert probe.table().to_pylist() == [
        {"t_ns": 10**9, "source": "server", "name": "vllm:num_requests_waiting", "value": 3.0},
        {"t_ns": 10**9, "source": "server", "name": "vllm:num_requests_running", "value": 8.0},
        {"t_ns": 2 * 10**9, "source": "server", "name": "vllm:num_requests_waiting", "value": 5.0},
    ]
    assert probe.warnings == []
    assert str(asked.requests[0].url) == "http://target/metrics"
    assert asked.requests[0].headers["x-key"] == "k"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (dead, "nobody listens"),
        (page(status=404), "HTTP 404"),
        (page("<html></html>"), ""),
        (page(status=307), "HTTP 307"),
    ],
    ids=["dead", "not found", "a page", "moved"],
)
def test_a_target_without_metrics_is_asked_three_times_and_warned_of(
    answer: Callable[[], httpx.Response], words: str
) -> None:
    probe, asked = sampled(answer, answer, answer, page())
    assert len(asked.requests) == 3
    assert probe.table().num_rows == 0
    assert probe.table().schema == SCHEMA
    (warning,) = probe.warnings
    assert warning.startswith("the target's /metrics answered 0 of 3 times: ")
    assert words in warning


def test_a_target_that_falls_silent_for_a_while_is_asked_on() -> None:
    probe, _ = sampled(page(), dead, dead, dead, dead, page())
    assert probe.table().num_rows == 4
    assert probe.warnings == ["the target's /metrics answered 2 of 6 times: nobody listens"]


def test_metrics_without_a_series_that_is_known_are_warned_of() -> None:
    probe, _ = sampled(page("python_gc_objects 7\n"))
    assert probe.table().num_rows == 0
    (warning,) = probe.warnings
    assert "no series that is known here" in warning


def test_what_was_never_asked_warns_of_nothing() -> None:
    assert ServerMetrics("http://target").warnings == []
