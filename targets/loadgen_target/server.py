"""The server's life: bind, load, answer, drain, leave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import platform
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import disable_created_metrics

from loadgen_target.config import ConfigError, ServerConfig
from loadgen_target.http import App
from loadgen_target.request import Status
from loadgen_target.service import Service, State

_KEEP_ALIVE_S = 75
_CUT_WITHIN_S = 2.0  # for those that are cut off to get their last words


async def serve(config: ServerConfig) -> int:
    """Run until a signal or the engine's death; the exit code. Raises ConfigError if the port cannot be had."""
    listener = _bind(config.host, config.port)
    disable_created_metrics()  # type: ignore[no-untyped-call]  # the library leaves it untyped
    service = Service(config)
    app = App(service, lambda: _facts(service))
    server = _Server(
        uvicorn.Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=int(_CUT_WITHIN_S),
        )
    )
    signals = _Signals()
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await _run_engine(service, signals, lambda: _announce(config, listener))
        await _drain(service, signals)
    finally:
        server.should_exit = True
        await serving
        await service.engine.stop()
    try:
        service.close_books()
    except OSError as error:
        _say(f"a log could not be written: {error}")
        return 1
    if service.engine.config_error is not None:
        raise service.engine.config_error
    if service.death is not None:
        _say(f"the engine's process has died: {service.death}")
        return 1
    return 0


async def _run_engine(service: Service, signals: _Signals, announce: Callable[[], None]) -> None:
    """Keep an engine up until a signal comes, or it has died and is not to be started again."""
    start = service.start_engine
    while True:
        starting = asyncio.create_task(start())
        await _first_done(starting, signals.stop)
        if signals.stop.is_set() or not starting.result():
            starting.cancel()
            return
        service.state = State.READY
        announce()
        await _first(service.died, signals.stop)
        if service.death is None or signals.stop.is_set() or not service.config.restarts_engine:
            return
        _say(f"the engine's process has died: {service.death}; starting it again")
        await service.engine.stop()
        start = service.restart_engine


class _Server(uvicorn.Server):
    """uvicorn without its own handling of signals: the drain comes first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Signals:
    """SIGTERM and SIGINT: the first asks to drain, the second to stop at once."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self.stop_now = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._take)

    def _take(self) -> None:
        (self.stop_now if self.stop.is_set() else self.stop).set()


async def _drain(service: Service, signals: _Signals) -> None:
    """Finish what runs, within the limit; then cut off the rest."""
    if service.death is None:
        service.state = State.DRAINING
        timeout_s = service.config.shutdown_timeout_s
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_first(service.idle, service.died, signals.stop_now), timeout_s)
    if service.death is None and service.num_open:
        _say(f"stopped with {service.num_open} requests unfinished")
    service.end_all(Status.ERROR)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(service.idle.wait(), _CUT_WITHIN_S)


async def _first_done(task: asyncio.Task[bool], event: asyncio.Event) -> None:
    """Wait until the task is done, or the event is set."""
    waiting = asyncio.create_task(event.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


async def _first(*events: asyncio.Event) -> None:
    """Wait for any of the events."""
    tasks = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


def _bind(host: str, port: int) -> socket.socket:
    listener = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        if listener is not None:
            listener.close()
        raise ConfigError(
            f"cannot listen on {host}:{port}: {error.strerror or error}",
            hint="give another --port, or --port 0 for a free one",
        ) from None
    return listener


def _announce(config: ServerConfig, listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    host = f"[{config.host}]" if ":" in config.host else config.host
    url = f"http://{host}:{port}"
    if config.ready_file is not None:
        _write_aside(config.ready_file, json.dumps({"url": url, "pid": os.getpid()}) + "\n")
    _say(f"ready on {url}")


def _write_aside(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


def _facts(service: Service) -> dict[str, Any]:
    """What runs here, for a report to keep."""
    config = service.config
    on = service.engine.facts or {}
    return {
        "name": "loadgen_target",
        "version": _version(),
        "device": on.get("device"),
        "torch": on.get("torch"),
        "model": config.served_model_name,
        "policy": config.engine.policy.name,
        "flags": config.told,
        "preset": config.engine.preset,
        "engine": service.engine.facts,
        "engine_pid": service.engine.pid,
        "python": platform.python_version(),
    }


def _version() -> str:
    try:
        return metadata.version("loadgen")
    except metadata.PackageNotFoundError:
        return "unknown"


def _say(text: str) -> None:
    sys.stderr.write(f"loadgen-target {text}\n")
    sys.stderr.flush()
