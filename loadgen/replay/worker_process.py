"""A worker in a process of its own: told when to start and stop over a pipe, its records go to its journal."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from pathlib import Path

import pyarrow as pa
import uvloop

from loadgen.errors import UsageError
from loadgen.plan.prompts import Prompts
from loadgen.replay.clock import RunClock
from loadgen.replay.dialects import dialect_named
from loadgen.replay.health import Health
from loadgen.replay.journal import JournalWriter
from loadgen.replay.payloads import Asking, Payloads
from loadgen.replay.worker import Worker, WorkerSettings


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """Everything a worker process needs; plain values, so that it can be sent anywhere."""

    worker: int
    share: pa.Table
    settings: WorkerSettings
    asking: Asking
    prompts: Prompts
    journal_path: Path


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has payloads and connections, and waits for a Start."""

    worker: int


@dataclass(frozen=True, slots=True)
class Done:
    """All of the share has ended and is in the journal."""

    worker: int
    health: Health


@dataclass(frozen=True, slots=True)
class Start:
    """Send, with this moment of the machine's monotonic clock as zero."""

    start_monotonic_ns: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End early; what is in flight is recorded as unfinished."""


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


def take_realtime_priority() -> None:
    """Run before every ordinary process; a busy neighbour then costs a tenth of a millisecond, not several.

    Raises UsageError where the system does not permit it.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except (AttributeError, OSError) as exc:
        raise UsageError(
            f"--realtime is not permitted here ({exc})",
            hint="run as root, allow CAP_SYS_NICE, or leave it out",
        ) from exc


async def _work(task: WorkerTask, pipe: Pipe) -> None:
    dialect = dialect_named(task.asking.endpoint_type, task.asking.template)
    payloads = Payloads(task.share, task.settings.target, dialect, task.prompts, task.asking)
    journal = JournalWriter(task.journal_path)
    worker = Worker(task.worker, task.share, task.settings, dialect, payloads, journal.append, pipe.send)
    loop = asyncio.get_running_loop()
    start: asyncio.Future[RunClock | None] = loop.create_future()

    def on_command() -> None:
        try:
            command = pipe.recv()
        except (EOFError, OSError):
            loop.remove_reader(pipe.fileno())
            command = Stop()
        if isinstance(command, Start) and not start.done():
            start.set_result(RunClock(command.start_monotonic_ns))
        elif isinstance(command, Stop):
            worker.stop()
            if not start.done():
                start.set_result(None)

    await worker.prepare()
    loop.add_reader(pipe.fileno(), on_command)
    # The event loop makes the pipe non-blocking; a progress larger than its buffer would then end the worker.
    os.set_blocking(pipe.fileno(), True)
    await worker.warm_up()
    pipe.send(Ready(task.worker))
    clock = await start
    if clock is not None:
        health = await worker.run(clock)
        journal.close()
        pipe.send(Done(task.worker, health))
    loop.remove_reader(pipe.fileno())
