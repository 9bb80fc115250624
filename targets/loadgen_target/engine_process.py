"""EngineProcess: the HTTP process's hand on the engine's process."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection

from loadgen_target.config import EngineConfig
from loadgen_target.request import Outcome, Status, Work
from loadgen_target.worker import Abort, Failed, FromEngine, Ready, Stop, run_engine

_STOP_WITHIN_S = 5.0


class EngineProcess:
    """Starts the engine, sends it work, and hands on what it says.

    on_outcome: called for each step's outcome, on the event loop.
    on_death: called once with the reason when the engine's process is gone without being told.
    """

    def __init__(
        self,
        config: EngineConfig,
        on_outcome: Callable[[Outcome], None],
        on_death: Callable[[str], None],
    ) -> None:
        self._on_outcome = on_outcome
        self._on_death = on_death
        self._last_words: str | None = None
        self._is_stopping = False
        self.is_alive = True
        self.facts: dict[str, str | int | bool] | None = None
        self.ready = asyncio.Event()
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=run_engine, args=(config, theirs), name="loadgen-target-engine", daemon=True
        )
        self._process.start()
        # Only the engine may hold its end, for the pipe to close when it dies.
        theirs.close()
        asyncio.get_running_loop().add_reader(self._connection.fileno(), self._read)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def submit(self, work: Work) -> None:
        """Send a request; nothing happens when the engine is gone, since on_death tells."""
        self._send(work)

    def abort(self, request_id: int, status: Status) -> None:
        """Tell the engine that nobody waits for this request."""
        self._send(Abort(request_id, status))

    async def stop(self) -> None:
        """Let the engine leave, or end it."""
        self._is_stopping = True
        self._send(Stop())
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._process.join, _STOP_WITHIN_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._close()

    def _send(self, message: Work | Abort | Stop) -> None:
        if self.is_alive:
            with contextlib.suppress(OSError):
                self._connection.send(message)

    def _read(self) -> None:
        try:
            while self.is_alive and self._connection.poll():
                self._take(self._receive())
        except (EOFError, OSError):
            self._died()

    def _receive(self) -> FromEngine:
        connection: Connection = self._connection
        message: FromEngine = connection.recv()
        return message

    def _take(self, message: FromEngine) -> None:
        if isinstance(message, Ready):
            self.facts = message.facts
            self.ready.set()
        elif isinstance(message, Failed):
            self._last_words = message.message
        else:
            for outcome in message:
                self._on_outcome(outcome)

    def _died(self) -> None:
        self._close()
        if not self._is_stopping:
            self._process.join(1.0)
            self._on_death(self._last_words or f"exit status {self._process.exitcode}")

    def _close(self) -> None:
        if self.is_alive:
            self.is_alive = False
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            self._connection.close()
