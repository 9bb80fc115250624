"""Public doubles for tests: a clock that jumps, and a target that answers by script over a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class FakeClock:
    """A run's clock that moves only when told to."""

    moment_ns: int = 0

    def now_ns(self) -> int:
        return self.moment_ns

    def advance(self, duration_s: float) -> None:
        self.moment_ns += round(duration_s * 1e9)


@dataclass(frozen=True, slots=True)
class FakeRequest:
    """What a FakeTarget was asked. serial counts from 0 in order of receipt; moments are monotonic seconds.

    body: of a JSON object; empty for any other, which is in raw_body as it came.
    """

    serial: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    received_s: float
    method: str = "POST"
    raw_body: bytes = b""

    @property
    def row(self) -> int:
        """The trace row that a replay sent it for; unlike the order of receipt, it is no matter of chance."""
        return int(self.headers["x-request-id"].rsplit("-", 2)[1])


@dataclass(frozen=True, slots=True)
class Send:
    """Write these bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing for so long."""

    duration_s: float


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection, cleanly or with a TCP reset."""

    reset: bool = False


@dataclass(frozen=True, slots=True)
class HalfClose:
    """Send the end of the stream, and go on listening."""


Step = Send | Wait | Close | HalfClose


def head(status: int = 200, *, content_type: str = "text/event-stream", extra: str = "") -> Send:
    """The head of a chunked answer."""
    return Send(
        f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n{extra}\r\n".encode()
    )


def chunk(data: bytes) -> Send:
    """One chunk of a chunked answer."""
    return Send(b"%x\r\n%b\r\n" % (len(data), data))


def event(document: Any) -> Send:
    """One server-sent event as one chunk; text such as [DONE] goes as it is."""
    text = document if isinstance(document, str) else json.dumps(document)
    return chunk(f"data: {text}\n\n".encode())


LAST_CHUNK = Send(b"0\r\n\r\n")


def whole(status: int, document: Any, extra: str = "") -> Send:
    """A whole JSON answer with its length."""
    body = json.dumps(document).encode()
    lines = (
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    )
    return Send(lines.encode() + body)


def text_page(text: str) -> Send:
    """A whole answer in plain text."""
    body = text.encode()
    return Send(
        b"HTTP/1.1 200 X\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n%b"
        % (len(body), body)
    )


def chat_stream(num_tokens: int, *, first_s: float = 0.0, gap_s: float = 0.0) -> list[Step]:
    """A correct chat stream: `num_tokens` events, a usage event, [DONE]."""
    steps: list[Step] = [Wait(first_s), head()]
    for position in range(num_tokens):
        if position:
            steps.append(Wait(gap_s))
        reason = "length" if position == num_tokens - 1 else None
        steps.append(event({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": reason}]}))
    counts = {"prompt_tokens": 1, "completion_tokens": num_tokens}
    return [*steps, event({"choices": [], "usage": counts}), event("[DONE]"), LAST_CHUNK]


@dataclass
class FakeTarget:
    """A server in a thread; `script` says how each request is answered. Use it as a context manager.

    GET requests are answered without the script: /v1/models names one model, /metrics is what `metrics` gives, if
    given; everything else is 404.
    host: the address of this machine to listen at. unix_socket: path of a socket to listen on in its place.
    api_key: who does not give it is answered 401.
    """

    script: Callable[[FakeRequest], Sequence[Step]]
    tls: ssl.SSLContext | None = None
    unix_socket: str | None = None
    metrics: Callable[[], str] | None = None
    api_key: str | None = None
    host: str = "127.0.0.1"
    requests: list[FakeRequest] = field(default_factory=list)
    url: str = ""
    num_connections: int = 0
    max_in_flight: int = 0
    _in_flight: int = 0

    def __enter__(self) -> FakeTarget:
        if self.unix_socket is None:
            self._listener = socket.create_server((self.host, 0), backlog=1024)
            # asyncio sets this only on sockets whose protocol is named; without it an event waits 40 ms for an ACK.
            self._listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            scheme = "https" if self.tls else "http"
            self.url = f"{scheme}://{self.host}:{self._listener.getsockname()[1]}"
        else:
            self._listener = socket.socket(socket.AF_UNIX)
            self._listener.bind(self.unix_socket)
            self._listener.listen(1024)
            self.url = f"unix:{self.unix_socket}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        start = asyncio.start_server if self.unix_socket is None else asyncio.start_unix_server
        self._loop.run_until_complete(start(self._converse, sock=self._listener, ssl=self.tls))
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._listener.close()
        self._loop.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        top = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        received_s = self._loop.time()
        request_line, *lines = top.split("\r\n")
        headers = dict(_header(line) for line in lines if line)
        method, path, _ = request_line.split(" ")
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if self.api_key is not None and headers.get("authorization") != f"Bearer {self.api_key}":
            writer.write(whole(401, {"error": {"message": "wrong key"}}).data)
            await writer.drain()
            return True
        if method == "GET":
            if path == "/metrics" and self.metrics is not None:
                writer.write(text_page(self.metrics()).data)
            else:
                known = path == "/v1/models"
                writer.write(whole(200 if known else 404, {"data": [{"id": "fake"}]}).data)
            await writer.drain()
            return True
        request = FakeRequest(len(self.requests), path, headers, _json_object(body), received_s, method, body)
        self.requests.append(request)
        self._in_flight += 1
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        try:
            return await self._answer(self.script(request), writer)
        finally:
            self._in_flight -= 1

    async def _answer(self, steps: Sequence[Step], writer: asyncio.StreamWriter) -> bool:
        for step in steps:
            if isinstance(step, Wait):
                if step.duration_s:
                    await asyncio.sleep(step.duration_s)
            elif isinstance(step, Send):
                writer.write(step.data)
                await writer.drain()
            elif isinstance(step, HalfClose):
                writer.write_eof()
            else:
                if step.reset:
                    # A linger time of 0 turns the close into a reset.
                    raw = writer.get_extra_info("socket")
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    writer.transport.abort()
                else:
                    writer.close()
                return False
        return True


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.lower(), value.strip()


def one_byte_at_a_time(steps: Sequence[Step]) -> Iterator[Step]:
    """The same bytes, each in a write of its own."""
    for step in steps:
        if isinstance(step, Send):
            yield from (Send(step.data[i : i + 1]) for i in range(len(step.data)))
        else:
            yield step
