"""Workers: the seam between a run and where its workers are: processes on this machine, or actors on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from loadgen.plan.prompts import Prompts
from loadgen.replay.health import Health
from loadgen.replay.payloads import Asking
from loadgen.replay.worker import Progress, WorkerSettings


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """Everything a worker needs; plain values, so that it can be sent anywhere.

    journal_path: on the machine that began the run, whose folder it is in. records_at: a folder that all machines
    reach, for records on their way there; None where they come by themselves.
    """

    worker: int
    share: pa.Table
    settings: WorkerSettings
    asking: Asking
    prompts: Prompts
    journal_path: Path
    records_at: str | None = None


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
class Lost:
    """The worker is gone before it was done. reason: what became of it, in words.

    may_send_on: whether it may still send, unheard; else it has ended by now.
    """

    worker: int
    reason: str
    may_send_on: bool = False


@dataclass(frozen=True, slots=True)
class Start:
    """Send, with this moment as zero, on the monotonic clock of the machine that began the run."""

    start_monotonic_ns: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End early; what is in flight is recorded as unfinished."""


Word = Ready | Progress | Done | Lost
Command = Start | Stop


class Workers(Protocol):
    """The workers of one run: opened once, told what to do, closed.

    starts_in_s: from the agreement on the start to the start itself: time for the word to reach every worker.
    facts: where they ran, for run.json; {} where that is this machine.
    warnings: what makes the run less sure than it looks.
    """

    @property
    def starts_in_s(self) -> float: ...

    @property
    def facts(self) -> Mapping[str, Any]: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...

    def open(self, on_word: Callable[[Word], None]) -> None:
        """Start them all, on the running event loop; what they say goes to `on_word`. Records go to the journal."""
        ...

    def tell(self, worker: int, command: Command) -> None:
        """Tell one worker; nothing happens where it is gone."""
        ...

    async def collect(self) -> None:
        """When all are done or lost: have in the journal what they recorded elsewhere."""
        ...

    def close(self) -> None:
        """End those that still live."""
        ...
