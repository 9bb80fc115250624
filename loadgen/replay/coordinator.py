"""Coordinator: one run from its folder's making to its last record, over workers in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

import pyarrow as pa

from loadgen.errors import RunError
from loadgen.replay.clock import RunClock, clock_starting_in
from loadgen.replay.failure_watch import FailureWatch
from loadgen.replay.worker import Progress
from loadgen.replay.worker_process import Done, Ready, Start, Stop, WorkerTask, worker_main

# From the agreement on the start to the start itself: time for the word to reach every worker.
_START_IN_S = 0.3
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
    lost: workers that died before they were done. workers: health of each worker that was done.
    run_end_ns: on the run's clock.
    """

    signal_name: str | None
    lost: tuple[int, ...]
    workers: tuple[dict[str, Any], ...]
    run_end_ns: int
    gave_up: str | None = None


async def run_workers(
    tasks: Sequence[WorkerTask],
    on_start: Callable[[int, int], None],
    on_progress: Callable[[Progress], None],
    probes: Sequence[Probe] = (),
    abort_after_s: float | None = None,
) -> Ending:
    """Run all tasks to their end, with one agreed start.

    on_start(unix ns, monotonic ns of the start) is called just before it. The first SIGINT or SIGTERM ends the
    run early and keeps everything; a second one leaves at once (KeyboardInterrupt), with what the journal has.
    abort_after_s: so long nothing but failures ends it early, too.
    Raises RunError if a worker dies before the start.
    """
    crew = _Crew(tasks, on_progress, FailureWatch(abort_after_s))
    with _Signals(crew) as signals:
        try:
            await crew.ready()
            clock, start_unix_ns = clock_starting_in(_START_IN_S)
            on_start(start_unix_ns, clock.start_monotonic_ns)
            crew.tell(Start(clock.start_monotonic_ns))
            sampling = [asyncio.create_task(probe.sample_forever(clock)) for probe in probes]
            await crew.done()
            for task in sampling:
                task.cancel()
            await asyncio.gather(*sampling, return_exceptions=True)
            if signals.count > 1:
                raise KeyboardInterrupt
            return Ending(
                signal_name=signals.first,
                lost=tuple(sorted(crew.lost)),
                workers=tuple(
                    {"worker": worker, **asdict(done.health)}
                    for worker, done in sorted(crew.finished.items())
                ),
                run_end_ns=clock.now_ns(),
                gave_up=crew.gave_up,
            )
        finally:
            crew.dismiss()


class _Crew:
    """The worker processes and what they have said."""

    def __init__(
        self, tasks: Sequence[WorkerTask], on_progress: Callable[[Progress], None], watch: FailureWatch
    ) -> None:
        self._on_progress = on_progress
        self._watch = watch
        self.gave_up: str | None = None
        self._ready: set[int] = set()
        self.finished: dict[int, Done] = {}
        self.lost: set[int] = set()
        self._changed = asyncio.Event()
        self._pipes: dict[int, Pipe] = {}
        self._processes: dict[int, BaseProcess] = {}
        self._stop_deadline_s: float | None = None
        loop = asyncio.get_running_loop()
        # A fresh interpreter: a forked one would inherit threads' locks and this process's event loop.
        context = multiprocessing.get_context("spawn")
        for task in tasks:
            ours, theirs = context.Pipe()
            process = context.Process(target=worker_main, args=(task, theirs), daemon=True)
            process.start()
            theirs.close()
            self._pipes[task.worker] = ours
            self._processes[task.worker] = process
            loop.add_reader(ours.fileno(), self._hear, task.worker)

    async def ready(self) -> None:
        while len(self._ready) < len(self._pipes) and not self._stop_deadline_s:
            if self.lost:
                raise RunError(
                    f"worker {min(self.lost)} ended before the start",
                    hint="its message stands above; the run was not begun",
                )
            await self._change()

    async def done(self) -> None:
        while len(self.finished) + len(self.lost) < len(self._pipes):
            await self._change()
            if (
                self._stop_deadline_s is not None
                and asyncio.get_running_loop().time() > self._stop_deadline_s
            ):
                return

    def tell(self, command: Start | Stop) -> None:
        for worker, pipe in self._pipes.items():
            if worker not in self.finished and worker not in self.lost:
                with contextlib.suppress(OSError):
                    pipe.send(command)

    def stop(self) -> None:
        """Ask all to end early."""
        self._stop_deadline_s = asyncio.get_running_loop().time() + _STOP_WITHIN_S
        self.tell(Stop())
        self._changed.set()

    def give_up(self) -> None:
        """Wait for nobody any more."""
        self._stop_deadline_s = 0.0
        self._changed.set()

    def dismiss(self) -> None:
        loop = asyncio.get_running_loop()
        for worker, pipe in self._pipes.items():
            loop.remove_reader(pipe.fileno())
            pipe.close()
            process = self._processes[worker]
            process.join(timeout=0.5 if worker in self.finished or self._stop_deadline_s is None else 0.1)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()

    async def _change(self) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), 0.5)
        self._changed.clear()

    def _hear(self, worker: int) -> None:
        pipe = self._pipes[worker]
        try:
            said = pipe.recv()
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(pipe.fileno())
            if worker not in self.finished:
                self.lost.add(worker)
            self._changed.set()
            return
        if isinstance(said, Progress):
            self._on_progress(said)
            reason = self._watch.observe(said.worker, said.elapsed_ns / 1e9, said.outcomes)
            if reason is not None and self.gave_up is None:
                self.gave_up = reason
                self.stop()
            return
        if isinstance(said, Ready):
            self._ready.add(worker)
        elif isinstance(said, Done):
            self.finished[worker] = said
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
