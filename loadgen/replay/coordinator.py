"""Coordinator: one run from its workers' making to their last word, wherever they are."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import pyarrow as pa

from loadgen.errors import RunError
from loadgen.replay.clock import RunClock, clock_starting_in
from loadgen.replay.completion import Loss
from loadgen.replay.failure_watch import FailureWatch
from loadgen.replay.worker import Progress
from loadgen.replay.workers import Command, Done, Lost, Ready, Start, Stop, Word, Workers

# A worker that has been told to stop flushes and goes; one that does not is killed.
_STOP_WITHIN_S = 5.0


class Probe(Protocol):
    """Something sampled beside the requests, on the clock of the run."""

    async def sample_forever(self, clock: RunClock) -> None:
        """Sample until cancelled."""
        ...

    def table(self) -> pa.Table:
        """t_ns int64, source string, name string, value float64."""
        ...

    @property
    def warnings(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended.

    signal_name: of the signal that ended it early, or None. gave_up: why nothing more was sent, or None.
    lost: workers that were gone before they were done. workers: health of each worker that was done.
    run_end_ns: on the run's clock.
    """

    signal_name: str | None
    lost: Mapping[int, Loss]
    workers: tuple[dict[str, Any], ...]
    run_end_ns: int
    gave_up: str | None = None


async def run_workers(
    workers: Workers,
    numbers: Sequence[int],
    on_start: Callable[[int, int], None],
    on_progress: Callable[[Progress], None],
    probes: Sequence[Probe] = (),
    abort_after_s: float | None = None,
) -> Ending:
    """Run the workers of these numbers to their end, with one agreed start.

    on_start(unix ns, monotonic ns of the start) is called just before it. The first SIGINT or SIGTERM ends the
    run early and keeps everything; a second one leaves at once (KeyboardInterrupt), with what the journal has.
    abort_after_s: so long nothing but failures ends it early, too.
    Raises RunError if a worker dies before the start.
    """
    crew = _Crew(workers, numbers, on_progress, FailureWatch(abort_after_s))
    with _Signals(crew) as signals:
        try:
            await crew.ready()
            clock, start_unix_ns = clock_starting_in(workers.starts_in_s)
            on_start(start_unix_ns, clock.start_monotonic_ns)
            crew.begin(clock)
            sampling = [asyncio.create_task(probe.sample_forever(clock)) for probe in probes]
            await crew.done()
            crew.lose_the_silent()
            for task in sampling:
                task.cancel()
            await asyncio.gather(*sampling, return_exceptions=True)
            run_end_ns = clock.now_ns()
            await workers.collect()
        finally:
            workers.close()
        # What was pressed while they closed is heard, too.
        await asyncio.sleep(0.01)
        if signals.count > 1:
            raise KeyboardInterrupt
        return Ending(
            signal_name=signals.first,
            lost=dict(sorted(crew.lost.items())) if crew.has_begun else {},
            workers=tuple(
                {"worker": worker, **asdict(done.health)} for worker, done in sorted(crew.finished.items())
            ),
            run_end_ns=run_end_ns,
            gave_up=crew.gave_up,
        )


class _Crew:
    """What the workers have said."""

    def __init__(
        self,
        workers: Workers,
        numbers: Sequence[int],
        on_progress: Callable[[Progress], None],
        watch: FailureWatch,
    ) -> None:
        self._workers = workers
        self._numbers = numbers
        self._on_progress = on_progress
        self._watch = watch
        self.gave_up: str | None = None
        self._ready: set[int] = set()
        self.finished: dict[int, Done] = {}
        self.lost: dict[int, Loss] = {}
        self._clock: RunClock | None = None
        self._changed = asyncio.Event()
        self._stop_deadline_s: float | None = None
        workers.open(self._hear)

    async def ready(self) -> None:
        while len(self._ready) < len(self._numbers) and not self._stop_deadline_s:
            if self.lost:
                first = min(self.lost)
                raise RunError(
                    f"worker {first} ended before the start: {self.lost[first].reason}",
                    hint="the run was not begun; what it said itself, if anything, stands above",
                )
            await self._change()

    @property
    def has_begun(self) -> bool:
        return self._clock is not None

    def begin(self, clock: RunClock) -> None:
        """Have all send, on this clock; nothing is begun where they were told to stop meanwhile."""
        if self._stop_deadline_s is None:
            self._clock = clock
            self.tell(Start(clock.start_monotonic_ns))

    async def done(self) -> None:
        while len(self.finished) + len(self.lost) < len(self._numbers):
            await self._change()
            if (
                self._stop_deadline_s is not None
                and asyncio.get_running_loop().time() > self._stop_deadline_s
            ):
                return

    def lose_the_silent(self) -> None:
        """Count those as lost that were told to stop and did not: they are killed when the workers close."""
        for worker in self._numbers:
            if worker not in self.finished:
                self._hear(Lost(worker, f"it did not stop within {_STOP_WITHIN_S:.0f} s"))

    def tell(self, command: Command) -> None:
        for worker in self._numbers:
            if worker not in self.finished and worker not in self.lost:
                self._workers.tell(worker, command)

    def stop(self) -> None:
        """Ask all to end early."""
        self._stop_deadline_s = asyncio.get_running_loop().time() + _STOP_WITHIN_S
        self.tell(Stop())
        self._changed.set()

    def give_up(self) -> None:
        """Wait for nobody any more."""
        self._stop_deadline_s = 0.0
        self._changed.set()

    async def _change(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), 0.5)
        self._changed.clear()

    def _hear(self, word: Word) -> None:
        if isinstance(word, Progress):
            self._on_progress(word)
            reason = self._watch.observe(word.worker, word.elapsed_ns / 1e9, word.outcomes)
            if reason is not None and self.gave_up is None:
                self.gave_up = reason
                self.stop()
            return
        if isinstance(word, Ready):
            self._ready.add(word.worker)
        elif isinstance(word, Done):
            self.finished[word.worker] = word
        elif isinstance(word, Lost) and word.worker not in self.finished | self.lost.keys():
            # Before the start, what is gone has sent nothing.
            now_ns = -1 if self._clock is None else self._clock.now_ns()
            self.lost[word.worker] = Loss(word.reason, None if word.may_send_on else now_ns)
        self._changed.set()


class _Signals:
    """SIGINT and SIGTERM while the workers run: the first ends the run early, the second at once."""

    def __init__(self, crew: _Crew) -> None:
        self._crew = crew
        self.first: str | None = None
        self.count = 0

    def __enter__(self) -> _Signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._take, number)
        return self

    def __exit__(self, *_: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(number)

    def _take(self, number: signal.Signals) -> None:
        self.count += 1
        if self.first is None:
            self.first = number.name
            self._crew.stop()
        else:
            self._crew.give_up()
