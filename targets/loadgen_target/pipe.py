"""The pipe between the two processes: pickled messages, each behind its length, over a pair of sockets."""

from __future__ import annotations

import asyncio
import pickle
import socket
from collections.abc import Callable
from typing import Any, cast

_LENGTH_BYTES = 4


class BlockingPipe:
    """The engine's end; one thread may send while another receives."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._reader = connected.makefile("rb")

    def send(self, message: object) -> None:
        """Raises OSError when the other end is gone."""
        self._socket.sendall(_framed(message))

    def receive(self) -> Any:
        """The next message. Raises EOFError when the other end is gone."""
        size = int.from_bytes(self._read(_LENGTH_BYTES), "big")
        return pickle.loads(self._read(size))

    def close(self) -> None:
        """Let go of the socket."""
        self._reader.close()
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = self._reader.read(size)
        if len(data) < size:
            raise EOFError
        return data


class LoopPipe(asyncio.Protocol):
    """The event loop's end: it never blocks, neither on a full pipe nor on half a message.

    on_message: called with each message. on_lost: called once when the other end is gone.
    """

    def __init__(self, on_message: Callable[[Any], None], on_lost: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_lost = on_lost
        self._data = bytearray()
        self._transport: asyncio.Transport | None = None

    async def open(self, connected: socket.socket) -> None:
        """Take over `connected`."""
        connected.setblocking(False)
        await asyncio.get_running_loop().create_connection(lambda: self, sock=connected)

    def send(self, message: object) -> None:
        """Hand over; dropped when the other end is gone, which on_lost tells."""
        if self._transport is not None:
            self._transport.write(_framed(message))

    def close(self) -> None:
        """Let go; on_lost is called if it has not been."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports behave as asyncio's and do not descend from them.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._data += data
        start = 0
        while len(self._data) - start >= _LENGTH_BYTES:
            body = start + _LENGTH_BYTES
            end = body + int.from_bytes(self._data[start:body], "big")
            if len(self._data) < end:
                break
            start, message = end, pickle.loads(memoryview(self._data)[body:end])
            self._on_message(message)
        del self._data[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_lost()


def _framed(message: object) -> bytes:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data
