"""A worker as an actor: what it has to say, records among it, goes back as one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import numpy as np
import pyarrow as pa

from loadgen.plan.prompts import Prompts
from loadgen.replay.commanded_worker import CommandedWorker
from loadgen.replay.descriptors import least_connections, refuse_beyond_descriptors
from loadgen.replay.worker_process import raise_descriptor_limit, take_realtime_priority
from loadgen.replay.workers import Command, Done, Ready, Word, WorkerTask

# A message costs whoever began the run a quarter of a millisecond, however much is in it.
_TELL_EVERY_S = 0.5

Said = list[Word | pa.RecordBatch]


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
        if task.settings.realtime:
            take_realtime_priority()
        said: Said = []
        worker = CommandedWorker(task, said.append, said.append)
        await worker.prepare()
        self._worker = worker
        self._can_hear.set()
        await worker.warm_up()
        yield [Ready(task.worker)]
        running = asyncio.ensure_future(worker.run())
        while not running.done():
            await asyncio.wait([running], timeout=_TELL_EVERY_S)
            if said:
                told = list(said)
                said.clear()
                yield told
        health = await running
        if health is not None:
            yield [*said, Done(task.worker, health)]

    async def hear(self, command: Command) -> None:
        """Take a command; a Start is on this node's monotonic clock."""
        await self._can_hear.wait()
        assert self._worker is not None
        self._worker.hear(command)
