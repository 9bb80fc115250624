"""The engine's process: a pipe in, a pipe out, one message a step.

A process of its own, since an event loop in the same interpreter would take the lock from the forward pass at
each operator: a loop that is 30 % busy makes a step three times as long.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import socket
import threading
import traceback
from dataclasses import dataclass

from loadgen_target.clock import WallClock
from loadgen_target.config import ConfigError, EngineConfig
from loadgen_target.engine import Engine
from loadgen_target.null_runner import NullRunner
from loadgen_target.pipe import BlockingPipe
from loadgen_target.request import Outcome, Status, Work
from loadgen_target.stages import make_tokenizer

_NULL_STEPS_A_MESSAGE = 256


Facts = dict[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class Abort:
    """To the engine: end this request; nobody waits for it."""

    request_id: int
    status: Status


@dataclass(frozen=True, slots=True)
class Stop:
    """To the engine: leave."""


@dataclass(frozen=True, slots=True)
class Ready:
    """From the engine: the model stands. facts: what it runs on, for people and reports."""

    facts: Facts


@dataclass(frozen=True, slots=True)
class Failed:
    """From the engine: its last words. is_config: a setting cannot be used, which its user can mend."""

    message: str
    hint: str | None = None
    is_config: bool = False


ToEngine = Work | Abort | Stop
FromEngine = Ready | Failed | list[Outcome]


def run_engine(config: EngineConfig, connected: socket.socket) -> None:
    """The main function of the engine's process; ends with Stop, or when the other end is gone."""
    # Ctrl-C reaches the whole group of processes; the HTTP process decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    pipe = BlockingPipe(connected)
    try:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            _Worker(config, pipe).run()
    except ConfigError as error:
        with contextlib.suppress(OSError):
            pipe.send(Failed(error.message, error.hint, is_config=True))
        raise SystemExit(2) from None
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"
        text = " ".join(str(error).split())[:300]
        with contextlib.suppress(OSError):
            pipe.send(Failed(f"{type(error).__name__}: {text} ({where})"))
        raise SystemExit(1) from None


class _Worker:
    def __init__(self, config: EngineConfig, pipe: BlockingPipe) -> None:
        self._config = config
        self._pipe = pipe
        self._inbox: queue.SimpleQueue[ToEngine] = queue.SimpleQueue()
        self._clock = WallClock(counts_threads=config.num_threads > 1)
        self._is_null = config.policy.name == "null"

    def run(self) -> None:
        engine = self._load()
        # The pipe is emptied at all times: were both ends to wait in a send, nothing would move again.
        threading.Thread(target=self._receive, daemon=True).start()
        pending: list[Outcome] = []
        while self._take_messages(engine):
            for outcome in engine.step():
                pending.append(outcome)
                if not self._is_null or len(pending) >= _NULL_STEPS_A_MESSAGE:
                    self._pipe.send(pending)
                    pending = []
            if pending and not engine.num_running:
                self._pipe.send(pending)
                pending = []

    def _load(self) -> Engine:
        config = self._config
        tokenizer = make_tokenizer(config)
        if self._is_null:
            self._pipe.send(Ready({"device": "none", "prepacked": False}))
            return Engine(config.policy, NullRunner(), self._clock, tokenizer.encode)
        # Here, since torch takes seconds to import and the HTTP process has no use for it.
        from loadgen_target.runner import ModelRunner  # noqa: PLC0415

        runner = ModelRunner(config)
        runner.warm_up(config.policy.batch_rows)
        self._pipe.send(Ready(runner.facts()))
        return Engine(config.policy, runner, self._clock, tokenizer.encode, runner.meter)

    def _receive(self) -> None:
        try:
            while True:
                self._inbox.put(self._pipe.receive())
        except (EOFError, OSError):
            self._inbox.put(Stop())

    def _take_messages(self, engine: Engine) -> bool:
        """Act on what has come; sleep until there is something to do. False to leave."""
        wake_ns = engine.wake_ns()
        while True:
            try:
                if wake_ns is None:
                    message = self._inbox.get()
                elif (wait_ns := wake_ns - self._clock.now_ns()) > 0:
                    message = self._inbox.get(timeout=wait_ns * 1e-9)
                else:
                    message = self._inbox.get_nowait()
            except queue.Empty:
                return True
            wake_ns = 0  # act on the rest that has come, then step
            if isinstance(message, Stop):
                return False
            if isinstance(message, Abort):
                engine.abort(message.request_id, message.status)
            else:
                engine.submit(message)
