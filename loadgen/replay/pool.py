"""ConnectionPool: hands each exchange an open connection at once, or opens one for it."""

from __future__ import annotations

import asyncio

from loadgen.replay.clock import RunClock
from loadgen.replay.connection import Connection
from loadgen.replay.connection_count import ConnectionCount
from loadgen.replay.exchange import Exchange
from loadgen.replay.known_heads import KnownHeads
from loadgen.replay.request_record import Outcome
from loadgen.replay.target import Target, Timeouts
from loadgen.replay.tls import tls_context
from loadgen.replay.transport import LINGER_NS, Ended


class ConnectionPool:
    """As many connections as there are streams at once: a wait for a free one would be our delay, not the target's.

    on_ended(exchange) is called once for each exchange that was dispatched.
    """

    def __init__(
        self,
        target: Target,
        timeouts: Timeouts,
        clock: RunClock,
        on_ended: Ended,
    ) -> None:
        self._target = target
        self._timeouts = timeouts
        self._clock = clock
        self._on_ended = on_ended
        self._loop = asyncio.get_running_loop()
        self._tls = tls_context(target)
        if self._tls is not None:
            self._tls.set_alpn_protocols(["http/1.1"])
        self._known_heads = KnownHeads()
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._opening: dict[asyncio.Task[None], Exchange] = {}
        self.count = ConnectionCount()

    def dispatch(self, exchange: Exchange, request: bytes) -> None:
        """Send `request` now on a kept connection, or as soon as a new one is open."""
        if exchange.dispatched_ns is None:
            exchange.dispatched_ns = self._clock.now_ns()
        while self._idle:
            connection = self._idle.pop()  # the one used last: the least likely to have been closed
            if connection.is_open:
                self._busy.add(connection)
                connection.send(exchange, request)
                return
        self._open_for(exchange, request)

    async def warm(self, num_connections: int) -> None:
        """Open that many connections before the start; those that cannot be had are left to be opened later."""
        opened = await asyncio.gather(
            *(asyncio.wait_for(self._connect(), self._timeouts.connect_s) for _ in range(num_connections)),
            return_exceptions=True,
        )
        self._idle.extend(connection for connection in opened if isinstance(connection, Connection))

    def sweep(self) -> None:
        """End what has run past its limit. Call it often: a limit holds to the time between two calls."""
        now_ns = self._clock.now_ns()
        for connection in list(self._busy):
            exchange = connection.exchange
            if exchange is None:
                continue
            if exchange.outcome is not None:
                if exchange.end_ns is not None and now_ns - exchange.end_ns > LINGER_NS:
                    connection.abort()
                continue
            outcome = self._timeouts.exceeded(exchange, now_ns)
            if outcome is not None:
                self._stop(connection, exchange, outcome, now_ns)

    def stop_all(self, outcome: Outcome) -> None:
        """End every exchange that is still open, as the run ends."""
        now_ns = self._clock.now_ns()
        for task, exchange in list(self._opening.items()):
            task.cancel()
            if exchange.outcome is None:
                exchange.stop(outcome, now_ns)
                self._on_ended(exchange)
        for connection in list(self._busy):
            if connection.exchange is not None:
                self._stop(connection, connection.exchange, outcome, now_ns)

    async def close(self) -> None:
        for connection in [*self._idle, *self._busy]:
            connection.abort()

    def _stop(self, connection: Connection, exchange: Exchange, outcome: Outcome, now_ns: int) -> None:
        exchange.stop(outcome, now_ns)
        if not connection.is_reported:
            connection.is_reported = True
            self._on_ended(exchange)
        connection.abort()

    def _open_for(self, exchange: Exchange, request: bytes) -> None:
        task = self._loop.create_task(self._open_and_send(exchange, request))
        self._opening[task] = exchange
        task.add_done_callback(self._opening.pop)

    async def _open_and_send(self, exchange: Exchange, request: bytes) -> None:
        try:
            connection = await asyncio.wait_for(self._connect(), self._timeouts.connect_s)
        except TimeoutError:
            exchange.stop(Outcome.TIMEOUT_CONNECT, self._clock.now_ns(), "no connection within the limit")
        except OSError as exc:
            exchange.fail_connect(exc, self._clock.now_ns())
        if exchange.outcome is not None:
            self._on_ended(exchange)
        elif connection.is_open:
            self._busy.add(connection)
            connection.send(exchange, request)
        else:
            exchange.on_lost(None, self._clock.now_ns())
            self._on_ended(exchange)

    async def _connect(self) -> Connection:
        def make() -> Connection:
            return Connection(
                self._clock,
                self._on_ended,
                self._take_back,
                self._forget,
                self._open_for,
                self._known_heads,
                self.count,
            )

        if self._target.unix_socket is not None:
            _, connection = await self._loop.create_unix_connection(
                make,
                self._target.unix_socket,
                ssl=self._tls,
                server_hostname=self._target.host if self._tls else None,
            )
        else:
            _, connection = await self._loop.create_connection(
                make,
                self._target.address,
                self._target.port,
                ssl=self._tls,
                server_hostname=self._target.host if self._tls else None,
            )
        return connection

    def _take_back(self, connection: Connection) -> None:
        self._busy.discard(connection)
        if self._target.reuse:
            self._idle.append(connection)
        else:
            connection.abort()

    def _forget(self, connection: Connection) -> None:
        self._busy.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
