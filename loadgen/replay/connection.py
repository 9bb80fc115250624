"""Connection: one HTTP/1.1 connection to the target, one exchange at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

import httptools

from loadgen.replay.alike import PLAIN, Alike, is_text
from loadgen.replay.clock import RunClock
from loadgen.replay.connection_count import ConnectionCount
from loadgen.replay.exchange import Exchange
from loadgen.replay.known_heads import Head, KnownHeads, head_of
from loadgen.replay.request_record import Outcome
from loadgen.replay.transport import MAX_HEAD_BYTES

# The size lines of chunks that are not looked at by the parser: what servers send for an event or some.
_CHUNK_SIZES = {form % size: size for size in range(1, 8192) for form in (b"%x", b"%X")}
_MAX_SIZE_LINE = 6  # bytes, with its end
# The size line, by the length of a whole chunk.
_LINE_OF_CHUNK = {len(b"%x" % size) + size + 4: b"%x\r\n" % size for size in range(1, 8192)}
_LAST_CHUNK = b"0\r\n\r\n"


class Connection(asyncio.Protocol):
    """Writes a request, feeds what comes back to its exchange, says when each has ended.

    on_ended(exchange): its outcome is set; called once each.
    on_idle(connection): ready for the next request. on_closed(connection): gone, whatever the reason.
    on_unanswered(exchange, request): a kept connection died before any byte of an answer; the exchange is open.
    """

    __slots__ = (
        "_alike",
        "_clock",
        "_count",
        "_has_read",
        "_head",
        "_head_bytes",
        "_headers",
        "_is_between_chunks",
        "_is_interim",
        "_is_muted",
        "_known_heads",
        "_on_closed",
        "_on_ended",
        "_on_idle",
        "_on_token",
        "_on_unanswered",
        "_parser",
        "_read_ns",
        "_reads_to_close",
        "_request",
        "_transport",
        "exchange",
        "is_reported",
        "num_exchanges",
    )

    def __init__(
        self,
        clock: RunClock,
        on_ended: Callable[[Exchange], None],
        on_idle: Callable[[Connection], None],
        on_closed: Callable[[Connection], None],
        on_unanswered: Callable[[Exchange, bytes], None],
        known_heads: KnownHeads,
        count: ConnectionCount,
    ) -> None:
        self._clock = clock
        self._on_ended = on_ended
        self._on_idle = on_idle
        self._on_closed = on_closed
        self._on_unanswered = on_unanswered
        self._known_heads = known_heads
        self._count = count
        self._alike: Alike | None = None  # of the exchange, where a chunk is what comes next
        self._on_token: Callable[[int], None]
        self._transport: Any = None
        self._parser: Any = None  # None while nothing but a known head and whole chunks has come
        self._head: Head | None = None  # of this answer, where it is known
        self._is_muted = False
        self._read_ns = 0
        self._head_bytes = 0
        self._has_read = False
        self._headers: dict[bytes, bytes] = {}
        self._is_interim = False
        self._is_between_chunks = False  # the head or a chunk has ended, and nothing has come after it
        self._reads_to_close = False
        self._request = b""
        self.exchange: Exchange | None = None
        self.is_reported = True
        self.num_exchanges = 0

    @property
    def is_open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def send(self, exchange: Exchange, request: bytes) -> None:
        """Hand the request to the socket now; its first send is the one that counts."""
        assert self.exchange is None
        self.exchange = exchange
        self.is_reported = False
        self._request = request
        self._parser = self._head = self._alike = None
        self._on_token = exchange.token_ns.append
        self._has_read = False
        self._head_bytes = 0
        self._is_between_chunks = False
        exchange.connection_reused = self.num_exchanges > 0
        self.num_exchanges += 1
        exchange.on_sent(self._clock.now_ns())
        self._transport.write(request)

    def abort(self) -> None:
        """Close at once, without waiting for anything."""
        self._alike = None  # what still comes is not counted
        if self._transport is not None:
            self._transport.abort()

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._count.open()

    def data_received(self, data: bytes) -> None:
        # The stamp comes before any parsing: our own work must not look like the target's. (It is clock.now_ns(),
        # without the call.)
        read_ns = monotonic_ns() - self._clock.start_monotonic_ns
        alike = self._alike
        # Nearly every read is a chunk of one event. What this costs is most of what an event costs.
        if (
            alike is not None
            and (line := _LINE_OF_CHUNK.get(len(data)))
            and data.startswith(line)
            and data.startswith(alike.before, len(line))
            and data.endswith(alike.chunk_after)
            and (text := data[len(line) + alike.start : -alike.chunk_tail])
            and (not text.translate(None, PLAIN) or is_text(text))
        ):
            self._on_token(read_ns)
            return
        exchange = self.exchange
        if exchange is None:
            self.abort()  # nobody asked: what comes cannot be an answer
            return
        self._take(exchange, data, read_ns)
        self._alike = exchange.alike if self._is_between_chunks else None

    def _take(self, exchange: Exchange, data: bytes, read_ns: int) -> None:
        self._read_ns = read_ns
        if self._parser is None and not self._is_between_chunks:
            data = self._take_known_head(exchange, data, read_ns)
        if self._is_between_chunks:
            data = self._take_chunks(exchange, data, read_ns)
            if not data:
                if exchange.outcome is not None and not self.is_reported:
                    self._report_end(exchange)
                return
            if data == _LAST_CHUNK and self._parser is None:
                assert self._head is not None
                self._complete(exchange, is_kept_alive=self._head.is_kept_alive)
                return
        self._parse(exchange, data, read_ns)

    def _take_known_head(self, exchange: Exchange, data: bytes, read_ns: int) -> bytes:
        """Take the head of an answer if its bytes have said the same before, and return what follows it."""
        self._has_read = True
        self._head = head = self._known_heads.get(head_of(data))
        if head is None:
            return data
        exchange.on_headers(head.status_code, head.headers, read_ns)
        self._is_between_chunks = True
        return data[len(head.text) :]

    def _parse(self, exchange: Exchange, data: bytes, read_ns: int) -> None:
        if exchange.headers_ns is None:
            self._head_bytes += len(data)
        try:
            if self._parser is None:
                data = self._begin_to_parse(exchange, data)
            self._parser.feed_data(data)
            # A chunk's end is all that ends so without having begun a chunk.
            self._is_between_chunks = self._is_between_chunks and data.endswith(b"\r\n")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            exchange.stop(Outcome.RESET, read_ns, f"not HTTP: {exc}")
            self.abort()
        if exchange.headers_ns is None and self._head_bytes > MAX_HEAD_BYTES:
            exchange.stop(Outcome.RESET, read_ns, f"head of the answer is over {MAX_HEAD_BYTES} bytes")
            self.abort()
        if exchange.outcome is not None and not self.is_reported:
            self._report_end(exchange)

    def _begin_to_parse(self, exchange: Exchange, data: bytes) -> bytes:
        """Show the parser the head, where that is whole, and return what follows it."""
        self._parser = httptools.HttpResponseParser(self)
        if self._head is not None:
            self._is_muted = True  # what it says has been taken
            self._parser.feed_data(self._head.text)
            self._is_muted = False
            return data
        text = head_of(data)
        self._parser.feed_data(text)
        headers = self._headers
        has_chunks = headers.get(b"transfer-encoding") == b"chunked"
        if has_chunks and exchange.status_code is not None and self.exchange is exchange:
            is_kept_alive = self._parser.should_keep_alive()
            self._known_heads.learn(Head(text, exchange.status_code, headers, is_kept_alive))
            self._headers = {}  # of the trailer, if there is one
        return data[len(text) :]

    def _take_chunks(self, exchange: Exchange, data: bytes, read_ns: int) -> bytes:
        """Hand on the chunks that lie whole in `data`, and return what is left to the parser.

        The parser stands between two chunks before and after, so it need not see them: it would take as long
        for an event as everything else.
        """
        start = 0
        while True:
            line_end = data.find(b"\r\n", start, start + _MAX_SIZE_LINE)
            size = _CHUNK_SIZES.get(data[start:line_end])
            if size is None:  # the last chunk, an extension, a part of a line, or no chunk at all
                return data[start:]
            stop = line_end + 2 + size
            if not data.startswith(b"\r\n", stop):
                return data[start:]
            exchange.on_body(data[line_end + 2 : stop], read_ns)
            start = stop + 2
            if start == len(data):
                return b""

    def eof_received(self) -> None:
        return None  # close: half-open connections serve nobody here

    def connection_lost(self, exc: Exception | None) -> None:
        exchange, self.exchange = self.exchange, None
        self._transport = None
        self._parser = None
        self._count.close()
        self._on_closed(self)
        if exchange is None or self.is_reported:
            return
        now_ns = self._clock.now_ns()
        if exchange.connection_reused and not self._has_read and exchange.num_reconnects == 0:
            if exchange.outcome is None:
                self.is_reported = True
                exchange.num_reconnects += 1
                self._on_unanswered(exchange, self._request)
                return
        elif exc is None and self._reads_to_close and exchange.headers_ns is not None:
            exchange.on_complete(now_ns)
        exchange.on_lost(exc, now_ns)
        self._report(exchange)

    # --- httptools callbacks ---

    def on_message_begin(self) -> None:
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        if self._is_muted:
            return
        status_code = self._parser.get_status_code()
        self._is_interim = 100 <= status_code < 200
        if self._is_interim:
            return
        headers = self._headers
        self._reads_to_close = b"content-length" not in headers and b"transfer-encoding" not in headers
        assert self.exchange is not None
        self.exchange.on_headers(status_code, headers, self._read_ns)

    def on_body(self, body: bytes) -> None:
        if self.exchange is not None:
            self.exchange.on_body(body, self._read_ns)

    def on_chunk_header(self) -> None:
        self._is_between_chunks = False

    def on_chunk_complete(self) -> None:
        self._is_between_chunks = True

    def on_message_complete(self) -> None:
        exchange = self.exchange
        if exchange is None or self._is_interim:
            return
        self._complete(exchange, is_kept_alive=self._parser.should_keep_alive() and not self._reads_to_close)

    def _complete(self, exchange: Exchange, *, is_kept_alive: bool) -> None:
        exchange.on_complete(self._read_ns)
        if not self.is_reported:
            self._report(exchange)
        self.exchange = None
        if is_kept_alive:
            self._on_idle(self)
        elif self._transport is not None:
            self._transport.close()

    def _report_end(self, exchange: Exchange) -> None:
        self._report(exchange)
        if exchange.outcome is Outcome.RESET:
            self.abort()

    def _report(self, exchange: Exchange) -> None:
        self.is_reported = True
        self._on_ended(exchange)
