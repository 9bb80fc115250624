"""The null server: answers every request at once with prepared bytes, so that only the generator is measured.

In a process of its own. It binds one port for each length of stream.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import Sequence
from functools import partial
from multiprocessing.connection import Connection as Pipe
from typing import Any

import uvloop

_GAP_S = 0.004  # between two events of a stream
MODEL = "null"

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END_OF_HEAD = b"\r\n\r\n"


def _chunk(document: Any) -> bytes:
    text = document if isinstance(document, str) else json.dumps(document)
    data = f"data: {text}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


def _token(finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": finish}
    return _chunk(
        {"id": "null-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, "choices": [choice]}
    )


class Stream:
    """What every answer of one port consists of: `num_events` events that carry text, then the end."""

    def __init__(self, num_events: int) -> None:
        usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": num_events}}
        self.num_events = num_events
        self.middle = _token()
        self.last = _token("length") + _chunk(usage) + _chunk("[DONE]") + b"0\r\n\r\n"


class Conversation(asyncio.Protocol):
    """One connection; each answer runs on its own timer, so that streams do not beat in time."""

    def __init__(self, stream: Stream) -> None:
        self._loop = asyncio.get_running_loop()
        self._stream = stream
        self._received = b""
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(_END_OF_HEAD)
        if head_end < 0:
            return
        length = _LENGTH.search(self._received, 0, head_end)
        end = head_end + len(_END_OF_HEAD) + (int(length[1]) if length else 0)
        if len(self._received) < end:
            return
        # Its client never pipelines: what has come is one whole request.
        self._received = self._received[end:]
        self._left = self._stream.num_events
        self._go_on(_HEAD)

    def _go_on(self, before: bytes = b"") -> None:
        if self._transport.is_closing():
            return
        self._transport.write(before + self._next())
        if self._left:
            self._loop.call_later(_GAP_S, self._go_on)

    def _next(self) -> bytes:
        self._left -= 1
        return self._stream.middle if self._left else self._stream.last


def null_server_main(events: Sequence[int], pipe: Pipe) -> None:
    """Entry of the process: sends the port of each length of stream, serves until the pipe's other end is gone."""
    # Ctrl-C reaches the whole process group; whoever started this decides when it ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(events, pipe))


async def _serve(events: Sequence[int], pipe: Pipe) -> None:
    loop = asyncio.get_running_loop()
    ports: dict[int, int] = {}
    for num_events in events:
        make = partial(Conversation, Stream(num_events))
        server = await loop.create_server(make, "127.0.0.1", 0, backlog=4096)
        ports[num_events] = server.sockets[0].getsockname()[1]
    is_over = asyncio.Event()
    loop.add_reader(pipe.fileno(), is_over.set)
    pipe.send(ports)
    await is_over.wait()
    loop.remove_reader(pipe.fileno())
