"""A worker that begins and ends when told to: the same wherever it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pyarrow as pa

from loadgen.replay.clock import RunClock
from loadgen.replay.dialects import dialect_named
from loadgen.replay.health import Health
from loadgen.replay.payloads import Payloads
from loadgen.replay.worker import Progress, Worker
from loadgen.replay.workers import Command, Start, WorkerTask


class CommandedWorker:
    """One worker of a run, on the running event loop: `prepare`, then `warm_up`, then `run`.

    on_batch gets RequestRecords, on_progress a Progress. `hear` may be called from the end of `prepare` on.
    """

    def __init__(
        self,
        task: WorkerTask,
        on_batch: Callable[[pa.RecordBatch], None],
        on_progress: Callable[[Progress], None],
    ) -> None:
        dialect = dialect_named(task.asking.endpoint_type, task.asking.template)
        payloads = Payloads(task.share, task.settings.target, dialect, task.prompts, task.asking)
        self._worker = Worker(
            task.worker, task.share, task.settings, dialect, payloads, on_batch, on_progress
        )
        self._start: asyncio.Future[RunClock | None] = asyncio.get_running_loop().create_future()

    async def prepare(self) -> None:
        """Make the first payloads and open the first connections."""
        await self._worker.prepare()

    async def warm_up(self) -> None:
        """Send the warm-up, if there is one."""
        await self._worker.warm_up()

    def hear(self, command: Command) -> None:
        """Take a command. A Start here means this machine's monotonic clock; only the first one counts."""
        if isinstance(command, Start):
            if not self._start.done():
                self._start.set_result(RunClock(command.start_monotonic_ns))
            return
        self._worker.stop()
        if not self._start.done():
            self._start.set_result(None)

    async def run(self) -> Health | None:
        """Wait for the start, send everything, wait for the answers. None where a Stop came before any Start."""
        clock = await self._start
        return None if clock is None else await self._worker.run(clock)
