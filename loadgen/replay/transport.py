"""Transport: the seam between a worker and the network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from loadgen.replay.connection_count import ConnectionCount
from loadgen.replay.exchange import Exchange
from loadgen.replay.request_record import Outcome

# After [DONE] the answer is complete; a server that does not end the HTTP message by then loses the connection.
LINGER_NS = 1_000_000_000
# A head beyond this is an attack or a mistake; no server needs it.
MAX_HEAD_BYTES = 100 * 1024

TRANSPORT_NAMES = ("fast", "httpx")


class Transport(Protocol):
    """Carries exchanges to the target. Made with on_ended(exchange), called once for each one dispatched.

    count: of its connections.
    """

    count: ConnectionCount

    def dispatch(self, exchange: Exchange, request: bytes) -> None:
        """Send `request`, a whole HTTP/1.1 request in bytes, now or as soon as a connection is open."""
        ...

    async def warm(self, num_connections: int) -> None:
        """Open connections before the start, where the transport can."""
        ...

    def sweep(self) -> None:
        """End what has run past its limit. Call it often: a limit holds to the time between two calls."""
        ...

    def stop_all(self, outcome: Outcome) -> None:
        """End every exchange that is still open, as the run ends."""
        ...

    async def close(self) -> None: ...


Ended = Callable[[Exchange], None]
