"""HttpxTransport: exchanges over httpx's engine (httpcore), for what the fast transport does not speak.

HTTP/2 where the package h2 is installed, HTTP and SOCKS proxies. It takes several times the processor time of
the fast transport, opens no connections ahead, and makes the same records of the same bytes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import httpcore

from loadgen.replay.clock import RunClock
from loadgen.replay.connection_count import ConnectionCount
from loadgen.replay.exchange import Exchange
from loadgen.replay.request_record import Outcome
from loadgen.replay.target import Target, Timeouts
from loadgen.replay.tls import tls_context
from loadgen.replay.transport import LINGER_NS, Ended


class _Attempt:
    """What the network did for one sending of a request."""

    __slots__ = ("has_connected", "has_eof", "has_sent", "num_bytes")

    def __init__(self) -> None:
        self.has_connected = False
        self.has_sent = False
        self.num_bytes = 0
        self.has_eof = False


class HttpxTransport:
    """One task an exchange, on a pool without limits."""

    def __init__(
        self,
        target: Target,
        timeouts: Timeouts,
        clock: RunClock,
        on_ended: Ended,
    ) -> None:
        self._target = target
        self._timeouts = timeouts
        self._now_ns = clock.now_ns
        self._on_ended = on_ended
        self._loop = asyncio.get_running_loop()
        self._running: dict[asyncio.Task[None], Exchange] = {}
        self._attempts: dict[asyncio.Task[Any] | None, _Attempt] = {}
        self.count = ConnectionCount()
        self._origin = target.origin.encode()
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=tls_context(target),
            proxy=_proxy(target.proxy),
            max_connections=None,  # a wait for a free one would be our delay, not the target's
            max_keepalive_connections=None,
            http1=not target.http2_only,
            http2=target.http2_only or has_http2(),
            uds=target.unix_socket,
            network_backend=_Network(target, clock.now_ns, self._attempts, self.count),
        )

    def dispatch(self, exchange: Exchange, request: bytes) -> None:
        if exchange.dispatched_ns is None:
            exchange.dispatched_ns = self._now_ns()
        task = self._loop.create_task(self._carry(exchange, request))
        self._running[task] = exchange
        task.add_done_callback(self._running.pop)

    async def warm(self, num_connections: int) -> None:
        """Does nothing: the engine opens a connection only with a request."""

    def sweep(self) -> None:
        now_ns = self._now_ns()
        for task, exchange in list(self._running.items()):
            if exchange.outcome is not None:
                if exchange.end_ns is not None and now_ns - exchange.end_ns > LINGER_NS:
                    task.cancel()
                continue
            outcome = self._timeouts.exceeded(exchange, now_ns)
            if outcome is not None:
                self._stop(task, exchange, outcome, now_ns)

    def stop_all(self, outcome: Outcome) -> None:
        now_ns = self._now_ns()
        for task, exchange in list(self._running.items()):
            if exchange.outcome is None:
                self._stop(task, exchange, outcome, now_ns)

    async def close(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._pool.aclose()

    def _stop(self, task: asyncio.Task[None], exchange: Exchange, outcome: Outcome, now_ns: int) -> None:
        exchange.stop(outcome, now_ns)
        self._on_ended(exchange)
        task.cancel()

    async def _carry(self, exchange: Exchange, request: bytes) -> None:
        """One exchange to its end, sent twice if a kept connection died before any byte of an answer."""
        while True:
            attempt = _Attempt()
            self._attempts[asyncio.current_task()] = attempt
            try:
                await self._exchange(exchange, request, attempt)
            except (httpcore.NetworkError, httpcore.ProtocolError) as exc:
                if self._was_kept_and_dead(exchange, attempt):
                    exchange.num_reconnects += 1
                    continue
                self._fail(exchange, attempt, exc)
            except httpcore.ConnectTimeout:
                self._end(exchange, Outcome.TIMEOUT_CONNECT, "no connection within the limit")
            except (httpcore.ProxyError, httpcore.UnsupportedProtocol, OSError, RuntimeError) as exc:
                # RuntimeError: the engine lacks a package for this kind of proxy.
                if exchange.outcome is None:
                    exchange.fail_connect(_os_error(exc), self._now_ns())
                    self._on_ended(exchange)
            finally:
                del self._attempts[asyncio.current_task()]
            return

    async def _exchange(self, exchange: Exchange, request: bytes, attempt: _Attempt) -> None:
        async def on_trace(event: str, _: dict[str, Any]) -> None:
            if event.endswith("send_request_headers.started") and event.startswith("http"):
                attempt.has_sent = True
                exchange.connection_reused = not attempt.has_connected
                exchange.on_sent(self._now_ns())

        response = await self._pool.handle_async_request(
            _request_of(
                self._origin,
                request,
                {"timeout": {"connect": self._timeouts.connect_s}, "trace": on_trace},
            )
        )
        try:
            stream = response.extensions["network_stream"]
            headers = {name.lower(): value for name, value in response.headers}
            exchange.on_headers(response.status, headers, _stamp(stream, self._now_ns))
            async for data in response.aiter_stream():
                was_open = exchange.outcome is None
                exchange.on_body(data, _stamp(stream, self._now_ns))
                if was_open and exchange.outcome is not None:
                    self._on_ended(exchange)
                    if exchange.outcome is Outcome.RESET:
                        return
            if exchange.outcome is None:
                exchange.on_complete(_stamp(stream, self._now_ns))
                self._on_ended(exchange)
        finally:
            await response.aclose()

    @staticmethod
    def _was_kept_and_dead(exchange: Exchange, attempt: _Attempt) -> bool:
        return (
            exchange.outcome is None
            and attempt.has_sent
            and not attempt.has_connected
            and attempt.num_bytes == 0
            and exchange.headers_ns is None
            and exchange.num_reconnects == 0
        )

    def _fail(self, exchange: Exchange, attempt: _Attempt, exc: Exception) -> None:
        if exchange.outcome is not None:
            return
        now_ns = self._now_ns()
        if isinstance(exc, httpcore.ConnectError):
            exchange.fail_connect(_os_error(exc), now_ns)
        elif isinstance(exc, httpcore.NetworkError):
            exchange.on_lost(_os_error(exc), now_ns)
        elif attempt.has_eof:
            exchange.on_lost(None, now_ns)
        else:
            exchange.stop(Outcome.RESET, now_ns, f"not HTTP: {exc}")
        self._on_ended(exchange)

    def _end(self, exchange: Exchange, outcome: Outcome, error: str) -> None:
        if exchange.outcome is None:
            exchange.stop(outcome, self._now_ns(), error)
            self._on_ended(exchange)


class _Network(httpcore.AsyncNetworkBackend):
    """Connects to the address that was resolved before the run, and stamps each read."""

    def __init__(
        self,
        target: Target,
        now_ns: Callable[[], int],
        attempts: dict[asyncio.Task[Any] | None, _Attempt],
        count: ConnectionCount,
    ) -> None:
        self._count = count
        self._target = target
        self._now_ns = now_ns
        self._attempts = attempts
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # the engine's own signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        is_target = self._target.proxy is None and host == self._target.host
        address = self._target.address if is_target else host
        stream = await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
        return self._connected(stream)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return self._connected(await self._inner.connect_unix_socket(path, timeout, socket_options))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def _connected(self, stream: httpcore.AsyncNetworkStream) -> _Stream:
        attempt = self._attempts.get(asyncio.current_task())
        if attempt is not None:
            attempt.has_connected = True
        self._count.open()
        return _Stream(stream, self._now_ns, self._attempts, self._count)


class _Stream(httpcore.AsyncNetworkStream):
    """A connection that remembers when it was last read from. read_ns: on the run's clock."""

    def __init__(
        self,
        stream: httpcore.AsyncNetworkStream,
        now_ns: Callable[[], int],
        attempts: dict[asyncio.Task[Any] | None, _Attempt],
        count: ConnectionCount,
    ) -> None:
        self._count: ConnectionCount | None = count  # None: it is closed
        self._stream = stream
        self._now_ns = now_ns
        self._attempts = attempts
        self.read_ns: int | None = None

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await self._stream.read(max_bytes, timeout)
        # Before any parsing: our own work must not look like the target's.
        self.read_ns = self._now_ns()
        attempt = self._attempts.get(asyncio.current_task())
        if attempt is not None:
            attempt.num_bytes += len(data)
            attempt.has_eof = not data
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        count, self._count = self._count, None
        if count is not None:
            count.close()
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.AsyncNetworkStream:
        inner = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        count, self._count = self._count, None
        assert count is not None
        return _Stream(inner, self._now_ns, self._attempts, count)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def has_http2() -> bool:
    """Whether HTTP/2 can be spoken here."""
    return find_spec("h2") is not None


def _stamp(stream: Any, now_ns: Callable[[], int]) -> int:
    """When the bytes that were just parsed were read."""
    read_ns: int | None = getattr(stream, "read_ns", None)
    return now_ns() if read_ns is None else read_ns


def _request_of(origin: bytes, request: bytes, extensions: dict[str, Any]) -> httpcore.Request:
    """The engine's form of a request that was made in bytes."""
    head, _, body = request.partition(b"\r\n\r\n")
    line, *lines = head.split(b"\r\n")
    method, path, _ = line.split(b" ")
    headers = [(name, value.strip()) for name, _, value in (text.partition(b":") for text in lines)]
    return httpcore.Request(method, origin + path, headers=headers, content=body, extensions=extensions)


def _proxy(url: str | None) -> httpcore.Proxy | None:
    """The proxy of a URL, whose user name and password go into a header of their own."""
    if url is None:
        return None
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    auth = None
    if parts.username is not None:
        auth = (unquote(parts.username).encode(), unquote(parts.password or "").encode())
    return httpcore.Proxy(urlunsplit((parts.scheme, host, parts.path, "", "")), auth=auth)


def _os_error(exc: BaseException) -> OSError:
    """What the operating system said, at the bottom of what the libraries made of it."""
    seen: BaseException | None = exc
    while seen is not None:
        if isinstance(seen, OSError) and (seen.errno is not None or isinstance(seen, ssl.SSLError)):
            return seen
        below = seen.exceptions[0] if isinstance(seen, BaseExceptionGroup) else None
        seen = below or seen.__cause__ or seen.__context__
    return OSError(str(exc) or type(exc).__name__)
