"""Workers in processes of their own: commanded over a pipe, their records go to their journals."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import resource
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection as Pipe
from multiprocessing.process import BaseProcess
from typing import Any

import uvloop

from loadgen.errors import UsageError
from loadgen.replay.commanded_worker import CommandedWorker
from loadgen.replay.journal import JournalWriter
from loadgen.replay.workers import Command, Done, Lost, Ready, Stop, Word, WorkerTask

_LEAVES_WITHIN_S = 0.5


class WorkerProcesses:
    """The workers of a run as processes of this machine, which all share its monotonic clock."""

    starts_in_s = 0.3
    facts: Mapping[str, Any] = {}
    warnings: tuple[str, ...] = ()

    def __init__(self, tasks: Sequence[WorkerTask]) -> None:
        self._tasks = tasks
        self._pipes: dict[int, Pipe] = {}
        self._processes: list[BaseProcess] = []

    def open(self, on_word: Callable[[Word], None]) -> None:
        loop = asyncio.get_running_loop()
        # A fresh interpreter: a forked one would inherit threads' locks and this process's event loop.
        context = multiprocessing.get_context("spawn")
        for task in self._tasks:
            ours, theirs = context.Pipe()
            process = context.Process(target=worker_main, args=(task, theirs), daemon=True)
            process.start()
            theirs.close()
            self._pipes[task.worker] = ours
            self._processes.append(process)
            loop.add_reader(ours.fileno(), self._hear, task.worker, on_word)

    def tell(self, worker: int, command: Command) -> None:
        with contextlib.suppress(OSError):
            self._pipes[worker].send(command)

    async def collect(self) -> None:
        """They write to the journal themselves."""

    def close(self) -> None:
        for pipe in self._pipes.values():
            asyncio.get_running_loop().remove_reader(pipe.fileno())
            pipe.close()
        end_s = time.monotonic() + _LEAVES_WITHIN_S
        for process in self._processes:
            process.join(timeout=max(0.0, end_s - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
            process.close()

    def _hear(self, worker: int, on_word: Callable[[Word], None]) -> None:
        pipe = self._pipes[worker]
        try:
            word: Word = pipe.recv()
        except (EOFError, OSError):
            asyncio.get_running_loop().remove_reader(pipe.fileno())
            word = Lost(worker, "its process died")
        on_word(word)


def worker_main(task: WorkerTask, pipe: Pipe) -> None:
    """Entry of the process. Ends when its share is done, on Stop, or when the other end of the pipe is gone."""
    # Ctrl-C reaches the whole process group; the coordinator decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise_descriptor_limit()
    if task.settings.realtime:
        take_realtime_priority()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_work(task, pipe))


def raise_descriptor_limit() -> None:
    """Take as many descriptors as the system lets this user have: each stream needs one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def take_realtime_priority(thread: int = 0) -> None:
    """Run before every ordinary process; a busy neighbour then costs a tenth of a millisecond, not several.

    thread: by its number; 0 is the calling one. Raises UsageError where the system does not permit it.
    """
    try:
        os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))
    except (AttributeError, OSError) as exc:
        raise UsageError(
            f"--realtime is not permitted here ({exc})",
            hint="run as root, allow CAP_SYS_NICE, or leave it out",
        ) from exc


async def _work(task: WorkerTask, pipe: Pipe) -> None:
    journal = JournalWriter(task.journal_path)
    worker = CommandedWorker(task, journal.append, pipe.send)
    loop = asyncio.get_running_loop()

    def on_command() -> None:
        try:
            command = pipe.recv()
        except (EOFError, OSError):
            loop.remove_reader(pipe.fileno())
            command = Stop()
        worker.hear(command)

    await worker.prepare()
    loop.add_reader(pipe.fileno(), on_command)
    # The event loop makes the pipe non-blocking; a progress larger than its buffer would then end the worker.
    os.set_blocking(pipe.fileno(), True)
    await worker.warm_up()
    pipe.send(Ready(task.worker))
    health = await worker.run()
    if health is not None:
        journal.close()
        pipe.send(Done(task.worker, health))
    loop.remove_reader(pipe.fileno())
