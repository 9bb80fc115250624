"""A very fast loopback server: each POST gets a chat stream of N events, one each gap, from prepared bytes.

usage: python benchmarks/fast_server.py --events 32 --gap-ms 2 --log receipts.npy --ready-file url.txt [--core 1]
On SIGTERM it writes the receipts: int64 (num_requests, 2), trace row (from X-Request-Id) and monotonic ns. Where
the system stamps what it receives (Linux), that is the moment of the request's last bytes by the kernel, however
busy this process is; elsewhere it is when they were read.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import struct
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
MODELS = b'{"data":[{"id":"fast"}]}'
SO_TIMESTAMPNS = 35  # of Linux; the socket module does not name it


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


def wall_minus_monotonic_ns() -> int:
    """The kernel stamps by the wall clock; of many tries, the one that took least is nearest to the truth."""
    tries = []
    for _ in range(100):
        before, wall, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
        tries.append((after - before, wall - (before + after) // 2))
    return min(tries)[1]


class Conversation:
    """One connection and where its answer stands."""

    __slots__ = ("left", "read", "socket", "unsent")

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.read = b""
        self.unsent = b""
        self.left = 0


class FastServer:
    """One thread, no parser: it knows what its clients send. Events leave in the order they are due."""

    def __init__(self, num_events: int, gap_ns: int) -> None:
        self._gap_ns = gap_ns
        self._num_events = num_events
        self._token = token()
        usage = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": num_events}}
        self._last = token("length") + chunk(usage) + chunk("[DONE]") + b"0\r\n\r\n"
        self._offset_ns = wall_minus_monotonic_ns()
        self._due: deque[tuple[int, Conversation]] = deque()
        self._open: dict[int, Conversation] = {}
        self._epoll = select.epoll()
        self.receipts: list[tuple[int, int]] = []
        self.is_stopping = False
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.setblocking(False)
        self._listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # what it accepts inherits it
        self._epoll.register(self._listener, select.EPOLLIN)
        self.port = self._listener.getsockname()[1]

    def serve(self) -> None:
        while not self.is_stopping:
            wait_s = max(0.0, (self._due[0][0] - time.monotonic_ns()) / 1e9) if self._due else 0.1
            for number, _ in self._epoll.poll(wait_s):
                if number == self._listener.fileno():
                    self._accept()
                elif number in self._open:
                    self._receive(self._open[number])
            self._send_due()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open[connection.fileno()] = Conversation(connection)
            self._epoll.register(connection, select.EPOLLIN)

    def _receive(self, conversation: Conversation) -> None:
        try:
            data, ancillary, _, _ = conversation.socket.recvmsg(65536, 64)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        if not data:
            self._close(conversation)
            return
        received_ns = time.monotonic_ns()
        for _, kind, stamp in ancillary:
            if kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = struct.unpack("qq", stamp)
                received_ns = seconds * 1_000_000_000 + nanoseconds - self._offset_ns
        conversation.read += data
        head, end, body = conversation.read.partition(b"\r\n\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:]) if end else {}
        if not end or len(body) < int(headers.get(b"content-length", 0)):
            return
        conversation.read = b""
        if head.startswith(b"GET"):
            self._send(
                conversation, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(MODELS), MODELS)
            )
            return
        self.receipts.append((int(headers[b"x-request-id"].rsplit(b"-", 2)[1]), received_ns))
        conversation.left = self._num_events - 1
        self._send(conversation, HEAD + (self._token if conversation.left else self._last))
        if conversation.left:
            self._due.append((time.monotonic_ns() + self._gap_ns, conversation))

    def _send_due(self) -> None:
        now_ns = time.monotonic_ns()
        while self._due and self._due[0][0] <= now_ns:
            due_ns, conversation = self._due.popleft()
            conversation.left -= 1
            # Below 0: all has been made, and some of it found no room.
            self._send(conversation, (b"", self._last, self._token)[min(1, max(-1, conversation.left)) + 1])
            if conversation.left > 0 or conversation.unsent:
                self._due.append((due_ns + self._gap_ns, conversation))

    def _send(self, conversation: Conversation, data: bytes) -> None:
        data = conversation.unsent + data
        try:
            sent = conversation.socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(data)  # the client has gone; its end is read elsewhere
        conversation.unsent = data[sent:]

    def _close(self, conversation: Conversation) -> None:
        if self._open.pop(conversation.socket.fileno(), None) is not None:
            conversation.socket.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=32)
    parser.add_argument("--gap-ms", type=float, default=2.0)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--ready-file", type=Path, required=True)
    parser.add_argument("--core", type=int, help="run on this core only")
    arguments = parser.parse_args()
    if arguments.core is not None:
        os.sched_setaffinity(0, {arguments.core})
    server = FastServer(arguments.events, round(arguments.gap_ms * 1e6))

    def stop(*_: object) -> None:
        server.is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    arguments.ready_file.write_text(f"http://127.0.0.1:{server.port}", encoding="utf-8")
    server.serve()
    np.save(arguments.log, np.array(server.receipts, dtype=np.int64).reshape(-1, 2))


if __name__ == "__main__":
    main()
