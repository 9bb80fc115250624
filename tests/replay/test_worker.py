"""A worker at scripted targets over real sockets: every fault in its own outcome, every send on time."""

from __future__ import annotations

import asyncio
import errno
import itertools
import time

import numpy as np
import pytest

from loadgen.replay.worker import Worker
from loadgen.testing import (
    FakeTarget,
    Wait,
    chat_stream,
    event,
    whole,
)
from support.sending import send

TOKEN = event({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]})
HANG = Wait(30.0)


def test_a_stream_is_sent_and_measured() -> None:
    with FakeTarget(lambda _: chat_stream(3, first_s=0.02, gap_s=0.01)) as fake:
        sent = send(fake.url, [0.0, 0.0, 0.05])
    assert sent.outcomes == ["ok", "ok", "ok"]
    for row in sent.records:
        moments = (
            "planned_ns",
            "dispatched_ns",
            "sent_ns",
            "headers_ns",
            "first_token_ns",
            "last_token_ns",
            "end_ns",
        )
        assert [row[name] for name in moments] == sorted(row[name] for name in moments)
        assert (row["num_chunks"], row["output_tokens"], row["tokens_source"]) == (3, 3, "usage")
        assert row["first_token_ns"] - row["sent_ns"] >= 20_000_000
        assert len(row["chunk_gap_us"]) == 2
        assert abs(sum(row["chunk_gap_us"]) - (row["last_token_ns"] - row["first_token_ns"]) / 1000) <= 1
    assert [request.body["max_tokens"] for request in fake.requests] == [3, 3, 3]
    assert {request.headers["x-request-id"] for request in fake.requests} == {"run-0-0", "run-1-0", "run-2-0"}


def test_requests_that_are_due_together_are_sent_together() -> None:
    # F56: no pool limit stands between a request and its moment.
    with FakeTarget(lambda _: chat_stream(1, first_s=1.5)) as fake:
        sent = send(fake.url, [0.0] * 150)
    assert sent.outcomes == ["ok"] * 150
    assert fake.max_in_flight == 150


def test_running_out_of_descriptors_is_our_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    # F61: never a failure of the target.
    with FakeTarget(lambda _: chat_stream(1)) as fake:

        async def no_descriptors(*_: object, **__: object) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

        def break_connecting(worker: Worker) -> None:
            monkeypatch.setattr(worker._pool, "_connect", no_descriptors)

        sent = send(fake.url, [0.0], on_worker=break_connecting, warm_connections=0)
    assert sent.outcomes == ["client_error"]


def test_a_wait_behind_our_own_cap_is_seen_from_the_planned_moment() -> None:
    # F38, at a tenth of its length: 8 requests 10 ms apart, 50 ms of service each, one slot.
    with FakeTarget(lambda _: chat_stream(1, first_s=0.05)) as fake:
        sent = send(fake.url, [0.01 * k for k in range(8)], max_concurrency=1)
    assert fake.max_in_flight == 1
    from_planned = [(row["last_token_ns"] - row["planned_ns"]) / 1e9 for row in sent.records]
    from_sent = [(row["last_token_ns"] - row["sent_ns"]) / 1e9 for row in sent.records]
    assert np.mean(from_planned) > 3 * np.mean(from_sent)
    assert max(from_planned) >= 8 * 0.05 - 0.07


def test_a_fault_of_our_own_ends_the_worker_instead_of_going_on_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    def break_sweeping(worker: Worker) -> None:
        monkeypatch.setattr(worker._pool, "sweep", broken)

    with FakeTarget(lambda _: chat_stream(1)) as fake, pytest.raises(ZeroDivisionError):
        send(fake.url, [0.0, 30.0], on_worker=break_sweeping)


def test_a_wall_clock_that_is_set_in_mid_run_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    # F63: 5 s back and an hour ahead, by turns, at each look.
    jumps_s = itertools.cycle((-5, 3600))
    wall_s = time.time()
    with FakeTarget(lambda _: chat_stream(3, first_s=0.02, gap_s=0.01)) as fake:
        monkeypatch.setattr(time, "time", lambda: wall_s + next(jumps_s))
        monkeypatch.setattr(time, "time_ns", lambda: round((wall_s + next(jumps_s)) * 1e9))
        sent = send(fake.url, [0.0, 0.05, 0.1])
    assert sent.outcomes == ["ok"] * 3
    for row in sent.records:
        moments = [
            row[name] for name in ("planned_ns", "sent_ns", "first_token_ns", "last_token_ns", "end_ns")
        ]
        assert moments == sorted(moments)
        assert moments[-1] < 5_000_000_000
        assert min(row["chunk_gap_us"]) >= 0


def test_a_stop_leaves_every_request_with_an_outcome() -> None:
    # F84, the worker's part: what had ended is kept, in flight is unfinished, the rest not_sent.
    async def stop_when_two_are_answered(worker: Worker) -> None:
        while worker._outcomes["ok"] < 2 or worker._num_sent < 3:
            await asyncio.sleep(0.005)
        worker.stop()

    def watch(worker: Worker) -> None:
        tasks.append(asyncio.get_running_loop().create_task(stop_when_two_are_answered(worker)))

    tasks: list[asyncio.Task[None]] = []
    with FakeTarget(lambda request: chat_stream(1, first_s=0.0 if request.row < 2 else 30.0)) as fake:
        sent = send(fake.url, [0.0, 0.02, 0.04, 60.0, 61.0], on_worker=watch)
    assert sent.outcomes == ["ok", "ok", "unfinished", "not_sent", "not_sent"]
    assert sent.records[2]["end_ns"] is not None
    assert sent.records[4]["sent_ns"] is None
    last = sent.progress[-1]
    assert sum(last.outcomes.values()) == 5


def test_the_end_of_the_drain_lists_what_hung() -> None:
    # F35: a request that never answers is unfinished, with its age.
    with FakeTarget(lambda request: [HANG] if request.row == 0 else chat_stream(1)) as fake:
        sent = send(fake.url, [0.0, 0.05], drain_s=2.0)
    assert sent.outcomes == ["unfinished", "ok"]
    assert sent.records[0]["end_ns"] / 1e9 >= 2.0


def test_a_key_that_the_server_repeats_is_not_recorded() -> None:
    # F82: error texts are kept, secrets in them are not.
    key = "sk-TEST-SENTINEL"
    with FakeTarget(lambda _: [whole(401, {"error": {"message": f"bad key {key}"}})]) as fake:
        sent = send(fake.url, [0.0], secrets=(key,))
    assert sent.records[0]["error"] == "HTTP 401: bad key ***"


@pytest.mark.parametrize(
    ("planned_s", "least"), [([0.0] * 40, 40), ([0.0, 0.1, 0.2], 3), ([0.1 * k for k in range(9)], 8)]
)
def test_what_a_plan_sends_at_one_moment_finds_its_connections_open(
    planned_s: list[float], least: int
) -> None:
    before_the_start: list[int] = []

    def count_when_open(_: Worker) -> None:
        # The server accepts in its own time what the kernel has already opened.
        deadline_s = time.monotonic() + 10
        while fake.num_connections < least and time.monotonic() < deadline_s:
            time.sleep(0.005)
        before_the_start.append(fake.num_connections)

    with FakeTarget(lambda _: chat_stream(1)) as fake:
        send(fake.url, planned_s, on_worker=count_when_open)
    assert before_the_start == [least]
