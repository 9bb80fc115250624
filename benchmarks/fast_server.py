"""A very fast loopback server: each POST gets a chat stream of N events, one each gap, from prepared bytes.

usage: python benchmarks/fast_server.py --events 32 --gap-ms 2 --log receipts.npy --ready-file url.txt
On SIGTERM it writes the receipts: int64 (num_requests, 2), trace row (from X-Request-Id) and monotonic ns.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import time
from pathlib import Path
from typing import Any

import httptools
import numpy as np
import uvloop

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODELS = b'{"data":[{"id":"fast"}]}'


def chunk(document: Any) -> bytes:
    text = document if isinstance(document, str) else json.dumps(document)
    data = f"data: {text}\n\n".encode()
    return b"%x\r\n%b\r\n" % (len(data), data)


def token(finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": finish, "logprobs": None}
    return chunk(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "fast",
            "choices": [choice],
        }
    )


class Conversation(asyncio.Protocol):
    """One connection: answers each request on its own timers."""

    def __init__(self, num_events: int, gap_s: float, receipts: list[tuple[int, int]]) -> None:
        self._receipts = receipts
        self._gap_s = gap_s
        self._num_events = num_events
        self._loop = asyncio.get_running_loop()
        self._token = token()
        usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": num_events}}
        self._last = token("length") + chunk(usage) + chunk("[DONE]") + b"0\r\n\r\n"
        self._row = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"x-request-id":
            self._row = int(value.rsplit(b"-", 2)[1])

    def on_message_complete(self) -> None:
        if self._parser.get_method() == b"GET":
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(MODELS), MODELS))
            return
        self._receipts.append((self._row, time.monotonic_ns()))
        self._transport.write(HEAD + self._token)
        self._loop.call_later(self._gap_s, self._next, self._num_events - 1)

    def _next(self, left: int) -> None:
        if self._transport.is_closing():
            return
        if left > 1:
            self._transport.write(self._token)
            self._loop.call_later(self._gap_s, self._next, left - 1)
        else:
            self._transport.write(self._last)


async def serve(arguments: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    receipts: list[tuple[int, int]] = []
    server = await loop.create_server(
        lambda: Conversation(arguments.events, arguments.gap_ms / 1e3, receipts), "127.0.0.1", 0, backlog=4096
    )
    port = server.sockets[0].getsockname()[1]
    arguments.ready_file.write_text(f"http://127.0.0.1:{port}", encoding="utf-8")
    stopped = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()
    np.save(arguments.log, np.asarray(receipts, dtype=np.int64).reshape(-1, 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=32)
    parser.add_argument("--gap-ms", type=float, default=2.0)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    uvloop.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
