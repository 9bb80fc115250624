"""A worker as an actor: what it has to say, records among it, goes back as one stream."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from loadgen.errors import UsageError
from loadgen.plan.prompts import Prompts
from loadgen.replay.commanded_worker import CommandedWorker
from loadgen.replay.descriptors import least_connections, refuse_beyond_descriptors
from loadgen.replay.on_ray.niceness import own_threads, take_back_niceness
from loadgen.replay.record_parts import PartsWriter
from loadgen.replay.worker import Progress
from loadgen.replay.worker_process import raise_descriptor_limit, take_realtime_priority
from loadgen.replay.workers import Command, Done, Ready, Word, WorkerTask

# A message costs whoever began the run a quarter of a millisecond, however much is in it.
_TELL_EVERY_S = 0.5
# Where records do not come with it, what it tells is for the live display alone.
_TELL_PROGRESS_EVERY_S = 2.0
_SHOWN = 50
_WRITE_EVERY_S = 5.0  # what the loss of a worker can cost


@dataclass(frozen=True, slots=True)
class Unwritten:
    """Records that could not be written where they were to be, and why."""

    batches: tuple[pa.RecordBatch, ...]
    reason: str


Said = list[Word | pa.RecordBatch | Unwritten]


class WorkerActor:
    """Actor: one share of one run. `words` is called once; `hear` may be called at any time."""

    def __init__(self, given: Callable[..., WorkerTask], prompts: Prompts) -> None:
        """given: makes the task, once it has the prompts, which all workers share."""
        self._task = given(prompts=prompts)
        self._worker: CommandedWorker | None = None
        self._can_hear = asyncio.Event()

    async def words(self) -> AsyncIterator[Said]:
        """All the worker says, from Ready to Done, several times a second; ends without Done where it was stopped.

        Raises GeneratorLimit and UsageError where this node cannot carry the share.
        """
        task = self._task
        raise_descriptor_limit()
        planned_ns = np.asarray(task.share.column("planned_ns").to_numpy(), dtype=np.int64)
        refuse_beyond_descriptors(least_connections(planned_ns, task.settings.max_concurrency))
        take_back_niceness()
        if task.settings.realtime:
            take_realtime_priority()
            for thread in own_threads():
                with contextlib.suppress(UsageError):  # one that has ended meanwhile
                    take_realtime_priority(thread)
        said: Said = []
        parts = None if task.records_at is None else PartsWriter(task.records_at, task.worker)
        worker = CommandedWorker(task, said.append if parts is None else parts.append, said.append)
        await worker.prepare()
        self._worker = worker
        self._can_hear.set()
        await worker.warm_up()
        yield [Ready(task.worker)]
        running = asyncio.ensure_future(worker.run())
        writing = None if parts is None else asyncio.ensure_future(_write_often(parts))
        tell_every_s = _TELL_EVERY_S if parts is None else _TELL_PROGRESS_EVERY_S
        while not running.done():
            await asyncio.wait([running], timeout=tell_every_s)
            if said:
                told: Said = list(said) if parts is None else [_together(said)]
                said.clear()
                yield told
        health = await running
        if parts is not None and writing is not None:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await parts.write()
            if parts.held:
                said.append(Unwritten(tuple(parts.held), task.settings.redact(str(parts.failure))))
        if health is not None:
            yield [*said, Done(task.worker, health)]

    async def hear(self, command: Command) -> None:
        """Take a command; a Start is on this node's monotonic clock."""
        await self._can_hear.wait()
        assert self._worker is not None
        self._worker.hear(command)


def _together(said: Said) -> Progress:
    """Several words on progress as one, with some of its latencies: a display shows no more."""
    told = [one for one in said if isinstance(one, Progress)]
    recent = [times for one in told for times in one.recent]
    return replace(told[-1], recent=tuple(recent[:: 1 + len(recent) // _SHOWN]))


async def _write_often(parts: PartsWriter) -> None:
    while True:
        await asyncio.sleep(_WRITE_EVERY_S)
        # Cancelled in between, the thread still writes: what it writes must not be written twice.
        await asyncio.shield(parts.write())
