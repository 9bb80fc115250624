"""Calibrating: the generator sends ever more at a null server until it is late."""

from __future__ import annotations

import asyncio
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.errors import RunError
from loadgen.percentiles import nearest_rank
from loadgen.plan.prompts import PromptMaker
from loadgen.plan.schedule import SCHEMA
from loadgen.replay.calibration import Calibration, Stair, Step, ceiling_of, stairs, step_of
from loadgen.replay.calibration_file import host_facts
from loadgen.replay.coordinator import run_workers
from loadgen.replay.null_server import MODEL, null_server_main
from loadgen.replay.payloads import Asking
from loadgen.replay.run_folder import read_journal
from loadgen.replay.share import shares_of
from loadgen.replay.target import Target, Timeouts
from loadgen.replay.worker import Progress, WorkerSettings
from loadgen.replay.worker_process import WorkerProcesses
from loadgen.replay.workers import WorkerTask

REST_RATE_PER_S = 100.0
_PAUSE_S = 0.1
_GIVE_UP_S = 2.0
_READY_WITHIN_S = 20.0
_INPUT_TOKENS = 100


@dataclass(frozen=True, slots=True)
class Effort:
    """How thoroughly to look.

    events: lengths of the streams, shortest first. rest_s: how long to send at a rate that is no load, then
    probe_rate_per_s for probe_s to see what a request costs. climb: the rates to try, as shares of what that cost
    lets expect; each is sent for step_s.
    """

    events: tuple[int, ...] = (1, 32)
    rest_s: float = 2.0
    probe_rate_per_s: float = 400.0
    probe_s: float = 1.0
    climb: tuple[float, ...] = (0.4, 0.5, 0.63, 0.8, 1.0, 1.25, 1.6, 2.0)
    step_s: float = 0.7


@dataclass(frozen=True, slots=True)
class Told:
    """How far it is. rate_per_s: that which is sent now."""

    num_events: int
    rate_per_s: float
    share_done: float


def calibrate(
    *, workers: int, transport: str, realtime: bool, effort: Effort, on_progress: Callable[[Told], None]
) -> Calibration:
    """Measure for `workers` processes on this machine; takes about 25 s by the usual effort.

    Raises RunError if a process dies, KeyboardInterrupt on SIGINT or SIGTERM; nothing is left running then.
    """
    climbed: dict[int, list[Step]] = {}
    rest_ns: list[npt.NDArray[np.int64]] = []
    with _null_server(effort.events) as ports:
        for place, num_events in enumerate(effort.events):
            sender = _Sender(
                workers, transport, realtime=realtime, port=ports[num_events], num_events=num_events
            )
            first = stairs(
                [(REST_RATE_PER_S, effort.rest_s), (effort.probe_rate_per_s, effort.probe_s)], _PAUSE_S
            )

            def tell(half: int, rate_per_s: float, share: float, *, place: int = place) -> None:
                done = (2 * place + half + share) / (2 * len(effort.events))
                on_progress(Told(effort.events[place], rate_per_s, done))

            at_rest, probed = sender.send(first, partial(tell, 0))
            expected_per_s = workers / sender.cpu_per_request_s
            # The first stair is for the worker to find its feet: connections, memory, the processor's clock.
            climb = [(share * expected_per_s, effort.step_s) for share in (effort.climb[0], *effort.climb)]
            second = stairs(climb, _PAUSE_S)
            _, *sent = sender.send(second, partial(tell, 1))
            rest_ns.append(at_rest)
            climbed[num_events] = [
                step_of(stair, lateness_ns)
                for stair, lateness_ns in zip((*first, *second[1:]), (at_rest, probed, *sent), strict=True)
            ]
    p50, p99 = nearest_rank(np.concatenate(rest_ns), [50, 99])
    if p50 is None or p99 is None:
        raise RunError("nothing was sent at the null server", hint="try again when the machine is less busy")
    return Calibration(
        host=host_facts(),
        measured_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        workers=workers,
        transport=transport,
        realtime=realtime,
        floor_p50_s=p50 / 1e9,
        floor_p99_s=p99 / 1e9,
        ceilings=tuple(ceiling_of(num_events, steps, p99 / 1e9) for num_events, steps in climbed.items()),
    )


class _Sender:
    """Sends stairs at one port of the null server, by the workers of a real run."""

    def __init__(self, workers: int, transport: str, *, realtime: bool, port: int, num_events: int) -> None:
        self._workers = workers
        self._num_events = num_events
        self._settings = WorkerSettings(
            Target(f"http://127.0.0.1:{port}", "http", "127.0.0.1", port, "127.0.0.1"),
            Timeouts(total_s=_GIVE_UP_S),
            drain_s=1.0,
            realtime=realtime,
            transport=transport,
        )
        self.cpu_per_request_s = 0.0

    def send(
        self, climb: Sequence[Stair], tell: Callable[[float, float], None]
    ) -> list[npt.NDArray[np.int64]]:
        """Lateness in ns of what was sent on each stair."""
        table = _table(np.concatenate([stair.planned_ns for stair in climb]), self._num_events)
        starts_ns = [int(stair.planned_ns[0]) for stair in climb]

        def take(progress: Progress) -> None:
            place = max(0, int(np.searchsorted(starts_ns, progress.elapsed_ns, "right")) - 1)
            tell(climb[place].rate_per_s, place / len(climb))

        with tempfile.TemporaryDirectory(prefix="loadgen-") as folder:
            tasks = self._tasks(table, Path(folder))
            ending = asyncio.run(
                run_workers(WorkerProcesses(tasks), range(len(tasks)), lambda *_: None, take)
            )
            if ending.signal_name:
                raise KeyboardInterrupt
            if ending.lost:
                raise RunError("a worker died while calibrating", hint="its message stands above")
            records = read_journal([task.journal_path for task in tasks])
        self.cpu_per_request_s = sum(worker["cpu_s"] for worker in ending.workers) / table.num_rows
        sent = records.filter(records.column("sent_ns").is_valid())
        planned_ns = np.asarray(sent.column("planned_ns").to_numpy(), dtype=np.int64)
        lateness_ns = np.asarray(sent.column("sent_ns").to_numpy(), dtype=np.int64) - planned_ns
        places = np.searchsorted(starts_ns, planned_ns, "right") - 1
        return [lateness_ns[places == place] for place in range(len(climb))]

    def _tasks(self, table: pa.Table, folder: Path) -> list[WorkerTask]:
        return [
            WorkerTask(
                worker=worker,
                share=share,
                settings=self._settings,
                asking=Asking("chat", MODEL, "calibrate", stream=True),
                prompts=PromptMaker(),
                journal_path=folder / f"worker-{worker}.arrows",
            )
            for worker, share in enumerate(shares_of(table, self._workers))
        ]


def _table(planned_ns: npt.NDArray[np.int64], num_events: int) -> pa.Table:
    """A schedule's table of equal requests."""
    count = planned_ns.size
    given = {
        "planned_ns": planned_ns,
        "trace_row": np.arange(count, dtype=np.int32),
        "copy": np.zeros(count, np.int16),
        "window": pa.array(["baseline"] * count).dictionary_encode(),
        "input_tokens": np.full(count, _INPUT_TOKENS, np.int32),
        "output_tokens": np.full(count, num_events, np.int32),
    }
    return pa.table(
        {name: given.get(name, pa.nulls(count, SCHEMA.field(name).type)) for name in SCHEMA.names}
    ).cast(SCHEMA)


@contextmanager
def _null_server(events: tuple[int, ...]) -> Iterator[dict[int, int]]:
    """The ports of the null server, by length of stream; it ends with the context, or with this process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=null_server_main, args=(events, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_READY_WITHIN_S):
            raise RunError("the null server did not start", hint="try again when the machine is less busy")
        try:
            yield ours.recv()
        except EOFError as exc:
            raise RunError("the null server died", hint="its message stands above") from exc
    finally:
        ours.close()
        process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join()
