"""EngineProcess: the HTTP process's hand on the engine's process."""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from collections.abc import Callable
from multiprocessing.context import SpawnProcess

from loadgen_target.config import ConfigError, EngineConfig
from loadgen_target.pipe import LoopPipe
from loadgen_target.request import Outcome, Status, Work
from loadgen_target.worker import Abort, Facts, Failed, FromEngine, Ready, Stop, run_engine

_STOP_WITHIN_S = 5.0
_DIED_WITHIN_S = 1.0  # between its end of the pipe closing and its exit status


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
        self._config = config
        self._on_outcome = on_outcome
        self._on_death = on_death
        self._last_words: Failed | None = None
        self._is_stopping = False
        self.facts: Facts | None = None
        self.ready = asyncio.Event()
        self._pipe = LoopPipe(self._take, self._lost)
        self._process: SpawnProcess | None = None

    @property
    def config_error(self) -> ConfigError | None:
        """Why it cannot run as it is told to; None unless its settings were the cause of its death."""
        words = self._last_words
        return ConfigError(words.message, hint=words.hint) if words and words.is_config else None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start the process; `ready` is set once its model stands."""
        ours, theirs = socket.socketpair()
        self._process = multiprocessing.get_context("spawn").Process(
            target=run_engine, args=(self._config, theirs), name="loadgen-target-engine", daemon=True
        )
        self._process.start()
        # Only the engine may hold its end, for the pipe to close when it dies.
        theirs.close()
        await self._pipe.open(ours)

    def submit(self, work: Work) -> None:
        """Send a request; nothing happens when the engine is gone, since on_death tells."""
        self._pipe.send(work)

    def abort(self, request_id: int, status: Status) -> None:
        """Tell the engine that nobody waits for this request."""
        self._pipe.send(Abort(request_id, status))

    async def stop(self) -> None:
        """Let the engine leave, or end it."""
        self._is_stopping = True
        self._pipe.send(Stop())
        if self._process is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._process.join, _STOP_WITHIN_S)
            if self._process.is_alive():
                self._process.kill()
                self._process.join()
        self._pipe.close()

    def _take(self, message: FromEngine) -> None:
        if isinstance(message, Ready):
            self.facts = message.facts
            self.ready.set()
        elif isinstance(message, Failed):
            self._last_words = message
        else:
            for outcome in message:
                self._on_outcome(outcome)

    def _lost(self) -> None:
        if not self._is_stopping and self._process is not None:
            self._process.join(_DIED_WITHIN_S)
            words = self._last_words
            self._on_death(words.message if words else f"exit status {self._process.exitcode}")
