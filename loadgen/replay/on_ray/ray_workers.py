"""The workers of a run as actors on the nodes of a cluster, all on the clock of the machine that began it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import ray

from loadgen.replay.clock_offset import ClockOffset, TrackedClock
from loadgen.replay.journal import JournalWriter
from loadgen.replay.on_ray.node_clock import measured_offset
from loadgen.replay.on_ray.seats import Node, Seats, is_up
from loadgen.replay.on_ray.worker_actor import Said, Unwritten, WorkerActor
from loadgen.replay.record_parts import batches_of, parts_of, remove_parts
from loadgen.replay.workers import Command, Done, Lost, Start, Word, WorkerTask

_FIRST_QUESTIONS, _LATER_QUESTIONS = 40, 10
_CHECK_EVERY_S = 5.0
# A worker speaks several times a second. One that is cut off may still send, unheard.
_SILENT_S = 30.0
# Lateness is told to this; a clock that is known less well is told of.
_SURE_NS = 1_000_000
# What Ray raises where the worker is known to have ended; of a node that is gone, only Ray's word is known.
_ENDED = (ray.exceptions.RayTaskError, ray.exceptions.ActorDiedError)


class RayWorkers:
    """An actor a task, each on its seat. What they record is put on our clock, and into the first task's journal.

    Actors end with this process, however it ends.
    """

    def __init__(self, seats: Seats, tasks: Sequence[WorkerTask]) -> None:
        self._seats = seats
        self._tasks = tasks
        self._node_of = {task.worker: seats.node_of[task.worker] for task in tasks}
        self._clocks: dict[str, TrackedClock] = {}
        self._actors: dict[int, Any] = {}
        self._start_ns: int | None = None
        self._running: list[asyncio.Task[None]] = []
        self._told: list[str] = []

    @property
    def starts_in_s(self) -> float:
        return 1.0 + 0.002 * len(self._tasks)

    @property
    def facts(self) -> Mapping[str, Any]:
        """nodes: each with its workers and its clock against ours; moments in ns."""
        return {"nodes": [self._node_facts(node) for node in self._seats.nodes]}

    @property
    def warnings(self) -> tuple[str, ...]:
        unsure = tuple(
            f"the clock of {node.name} is known to ±{clock.first.uncertainty_ns / 1e6:.1f} ms only; "
            "when its workers sent is as unsure"
            for node in self._seats.nodes
            if (clock := self._clocks.get(node.node_id)) is not None and clock.first.uncertainty_ns > _SURE_NS
        )
        nice = tuple(
            f"Ray gave workers on {node.name} a niceness of {node.facts['niceness']}: beside other work they send "
            "late; start it there with RAY_worker_niceness=0 in its environment"
            for node in self._seats.nodes
            if node.facts["niceness"] > 0
        )
        return (*unsure, *nice, *self._told)

    def open(self, on_word: Callable[[Word], None]) -> None:
        self._journal = JournalWriter(self._tasks[0].journal_path)
        self._running.append(asyncio.create_task(self._work(on_word)))

    def tell(self, worker: int, command: Command) -> None:
        if isinstance(command, Start):
            self._start_ns = command.start_monotonic_ns
            command = Start(self._clock_of(worker).start(self._start_ns))
        if worker in self._actors:
            self._actors[worker].hear.remote(command)

    async def collect(self) -> None:
        """Put what the workers left elsewhere on our clock and into the journal; then it is removed there."""
        if (records_at := self._tasks[0].records_at) is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._take_parts, records_at)

    def _take_parts(self, records_at: str) -> None:
        try:
            for worker, parts in parts_of(records_at).items():
                for path in parts:
                    for batch in batches_of(path):
                        self._keep(worker, batch)
        except Exception as exc:  # each library of a URL has errors of its own
            self._told.append(
                f"{records_at}: not all records could be read ({_reason(exc)}); they are still there"
            )
            return
        try:
            remove_parts(records_at)
        except Exception as exc:
            self._told.append(f"{records_at}: could not be removed ({_reason(exc)})")

    def close(self) -> None:
        for task in self._running:
            task.cancel()
        for actor in self._actors.values():
            ray.kill(actor)
        self._journal.close()

    async def _work(self, on_word: Callable[[Word], None]) -> None:
        try:
            for node in self._seats.nodes:
                offset = await self._asked(node, _FIRST_QUESTIONS)
                self._clocks[node.node_id] = TrackedClock(time.monotonic_ns(), offset)
            # The same for all, and large: it is sent once to each node, not once to each worker.
            prompts = ray.put(self._tasks[0].prompts)
            for task in self._tasks:
                self._actors[task.worker] = self._actor(task, prompts)
                self._running.append(asyncio.create_task(self._listen(task.worker, on_word)))
        except Exception as exc:  # whatever it is: without a word the run would wait for ever
            for task in self._tasks:
                on_word(Lost(task.worker, _reason(exc)))
            return
        await self._watch_clocks()

    def _actor(self, task: WorkerTask, prompts: Any) -> Any:
        given = partial(
            WorkerTask,
            worker=task.worker,
            share=task.share,
            settings=task.settings,
            asking=task.asking,
            journal_path=task.journal_path,
            records_at=task.records_at,
        )
        # Not restarted: what it had sent is not known, and must not be sent twice.
        options = {
            "num_cpus": 1,
            "max_restarts": 0,
            "scheduling_strategy": self._seats.strategy(task.worker),
        }
        return ray.remote(WorkerActor).options(**options).remote(given, prompts)

    async def _watch_clocks(self) -> None:
        while True:
            await asyncio.sleep(_CHECK_EVERY_S)
            # One after the other: questions at the same time would wait for each other here.
            for node in self._seats.nodes:
                with contextlib.suppress(ray.exceptions.RayError):  # its workers' loss tells of a lost node
                    offset = await self._asked(node, _LATER_QUESTIONS)
                    self._clocks[node.node_id].check(time.monotonic_ns(), offset)

    async def _asked(self, node: Node, num_questions: int) -> ClockOffset:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, measured_offset, node.clock, num_questions)

    async def _listen(self, worker: int, on_word: Callable[[Word], None]) -> None:
        """Take what a worker says until it is done or gone."""
        stream = self._actors[worker].words.options(num_returns="streaming").remote()
        node = self._node_of[worker]
        may_send_on = False
        try:
            while (said := await self._next_said(stream)) is not None:
                for one in said:
                    if isinstance(one, pa.RecordBatch):
                        self._keep(worker, one)
                    elif isinstance(one, Unwritten):
                        self._told.append(
                            f"worker {worker} could not write all its records ({one.reason}); the rest came here"
                        )
                        for batch in one.batches:
                            self._keep(worker, batch)
                    else:
                        on_word(one)
                if isinstance(said[-1], Done):
                    return
            reason = "it was stopped before the start"
        except TimeoutError:
            reason, may_send_on = f"on {node.name}: nothing was heard of it for {_SILENT_S:.0f} s", True
        except Exception as exc:  # whatever it is, this worker is lost, and the others go on
            reason = f"on {node.name}: {_reason(exc)}"
            may_send_on = not (isinstance(exc, _ENDED) and is_up(node))
        # What nobody hears of must not go on sending.
        ray.kill(self._actors[worker])
        on_word(Lost(worker, reason, may_send_on=may_send_on))

    async def _next_said(self, stream: Any) -> Said | None:
        """The next that comes; None at the end. Raises TimeoutError when a worker falls silent while it sends."""
        coming = asyncio.ensure_future(anext(stream, None))
        while not coming.done():
            was_sending = self._start_ns is not None
            await asyncio.wait([coming], timeout=_SILENT_S)
            if not coming.done() and was_sending:
                coming.cancel()
                raise TimeoutError
        ref = await coming
        if ref is None:
            return None
        said: Said = await ref
        return said

    def _keep(self, worker: int, batch: pa.RecordBatch) -> None:
        assert self._start_ns is not None
        self._journal.append(self._clock_of(worker).corrected(batch, self._start_ns))

    def _clock_of(self, worker: int) -> TrackedClock:
        return self._clocks[self._node_of[worker].node_id]

    def _node_facts(self, node: Node) -> dict[str, Any]:
        clock = self._clocks.get(node.node_id)
        return {
            **node.facts,
            "address": node.address,
            "workers": [worker for worker, at in self._node_of.items() if at is node],
            "clock": None
            if clock is None
            else {
                "offset_ns": clock.first.likely_ns,
                "uncertainty_ns": clock.first.uncertainty_ns,
                "drift_ns": clock.drift_ns,
                "residual_ns": clock.residual_ns,
                "num_checks": clock.num_checks,
            },
        }


def _reason(exc: Exception) -> str:
    """What happened, in one line."""
    if isinstance(exc, ray.exceptions.RayTaskError):
        return str(exc.cause)
    if isinstance(exc, ray.exceptions.RayActorError):
        return "its process or its node died"
    return str(exc).strip().splitlines()[0] if str(exc).strip() else type(exc).__name__
