"""What the coordinator makes of its workers' words, with workers that send nothing."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from loadgen.errors import RunError
from loadgen.replay import coordinator
from loadgen.replay.coordinator import Ending, run_workers
from loadgen.replay.health import Health
from loadgen.replay.workers import Command, Done, Lost, Ready, Start, Stop, Word

HEALTH = Health(1.0, 10.0, 0.0001, 0.001, 0.002, 0.0, 1 << 26)


class Told:
    """Workers that answer each command as `answers` says, at once; all are ready, save the `unready`."""

    starts_in_s = 0.0
    facts: Mapping[str, Any] = {}
    warnings: tuple[str, ...] = ()

    def __init__(
        self, answers: Callable[[int, Command], Word | None], num_workers: int = 2, unready: int | None = None
    ) -> None:
        self._answers = answers
        self._num_workers = num_workers
        self._unready = unready
        self.told: list[tuple[int, Command]] = []
        self.is_closed = False

    def open(self, on_word: Callable[[Word], None]) -> None:
        self._on_word = on_word
        for worker in range(self._num_workers):
            if worker != self._unready:
                on_word(Ready(worker))

    def tell(self, worker: int, command: Command) -> None:
        self.told.append((worker, command))
        if (word := self._answers(worker, command)) is not None:
            asyncio.get_running_loop().call_soon(self._on_word, word)

    async def collect(self) -> None:
        assert not self.is_closed

    def close(self) -> None:
        self.is_closed = True


def ran(workers: Told) -> Ending:
    return asyncio.run(run_workers(workers, [0, 1], lambda *_: None, lambda _: None))


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_lost_worker_leaves_the_others_and_its_end_is_known() -> None:
    words: dict[int, Word] = {0: Done(0, HEALTH), 1: Lost(1, "killed")}
    ending = ran(Told(lambda worker, _: words[worker]))
    assert [one["worker"] for one in ending.workers] == [0]
    assert list(ending.lost) == [1]
    ended_ns = ending.lost[1].ended_ns
    assert ended_ns is not None and 0 <= ended_ns <= ending.run_end_ns


def test_of_one_that_is_cut_off_no_end_is_known() -> None:
    words: dict[int, Word] = {0: Done(0, HEALTH), 1: Lost(1, "silent", may_send_on=True)}
    assert ran(Told(lambda worker, _: words[worker])).lost[1].ended_ns is None


def test_one_that_does_not_stop_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_STOP_WITHIN_S", 0.05)

    def answer(worker: int, command: Command) -> Word | None:
        if isinstance(command, Start) and worker == 0:
            interrupt()
        return Done(0, HEALTH) if isinstance(command, Stop) and worker == 0 else None

    ending = ran(Told(answer))
    assert ending.signal_name == "SIGINT"
    assert list(ending.lost) == [1] and "did not stop" in ending.lost[1].reason


def test_what_is_stopped_before_the_start_has_lost_nobody() -> None:
    def answer(worker: int, command: Command) -> Word:
        assert isinstance(command, Stop), "nothing may begin"
        return Lost(worker, "its process ended")

    workers = Told(answer, unready=1)

    async def run() -> Ending:
        asyncio.get_running_loop().call_later(0.05, interrupt)
        return await run_workers(workers, [0, 1], lambda *_: None, lambda _: None)

    ending = asyncio.run(run())
    assert ending.signal_name == "SIGINT"
    assert not ending.lost and not ending.workers
    assert workers.is_closed


def test_one_that_is_lost_before_the_start_ends_the_run() -> None:
    class Gone(Told):
        def open(self, on_word: Callable[[Word], None]) -> None:
            super().open(on_word)
            on_word(Lost(1, "no such module"))

    with pytest.raises(RunError, match="worker 1 ended before the start: no such module"):
        ran(Gone(lambda *_: None, unready=1))
