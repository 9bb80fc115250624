"""Target: where requests go, as whom, and how long to wait for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from loadgen.errors import UsageError
from loadgen.replay.dialects.dialect import Dialect, Framing
from loadgen.replay.exchange import Exchange
from loadgen.replay.request_record import Outcome

# What a URL that was copied from a client may end in, beyond where the server's own paths begin.
_ENDPOINTS = (
    "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1", "/generate_stream", "/generate",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """One server, its address resolved once so that no lookup stands in the way of a send.

    url: as shown, without user information. address: the numeric address to connect to.
    headers: extra request headers, which may hold secrets; they are never shown.
    path: of the URL, put before the dialect's path where it does not hold it already.
    """

    url: str
    scheme: str
    host: str
    port: int
    address: str
    path: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    verify_tls: bool = True

    @property
    def base_url(self) -> str:
        """Where the server's own paths (/metrics, /v1/models) begin."""
        for ending in _ENDPOINTS:
            if self.url.endswith(ending):
                return self.url.removesuffix(ending)
        return self.url

    def request_head(self, dialect: Dialect, model: str | None, *, stream: bool) -> bytes:
        """Request line and the headers that all requests share; the last ones are left to the caller."""
        endpoint = dialect.path(model, stream=stream)
        path = self.path if self.path.endswith(endpoint) else self.path.removesuffix("/v1") + endpoint
        default_port = {"http": 80, "https": 443}[self.scheme]
        name = f"[{self.host}]" if ":" in self.host else self.host
        host = name if self.port == default_port else f"{name}:{self.port}"
        accept = "*/*" if dialect.framing is Framing.WHOLE else "text/event-stream, application/json"
        lines = [
            f"{dialect.method} {path} HTTP/1.1",
            f"Host: {host}",
            f"Content-Type: {dialect.content_type}",
            f"Accept: {accept}",
            "Accept-Encoding: identity",
            *(f"{header}: {value}" for header, value in (*dialect.headers, *self.headers)),
        ]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n"


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a target's URL that matter here, checked."""

    scheme: str
    host: str
    port: int
    path: str

    def __str__(self) -> str:
        name = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{name}:{self.port}{self.path}"


def parse_url(text: str) -> Url:
    """Raises UsageError for what is no http or https URL; never shows a password that it holds."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise UsageError(f"--url cannot be read: {exc}", hint="give http://HOST:PORT") from exc
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError("--url is no http or https address", hint="give http://HOST:PORT")
    if parts.username or parts.password:
        raise UsageError("--url holds a user name or password", hint="give it with --header or --api-key")
    return Url(parts.scheme, host, port or {"http": 80, "https": 443}[parts.scheme], parts.path.rstrip("/"))


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait, in seconds, each counted for itself; None waits for ever.

    connect_s: to open a connection. first_token_s: from the send. gap_s: between two reads after the first
    token. total_s: from the send to the end.
    """

    connect_s: float = 10.0
    first_token_s: float | None = None
    gap_s: float | None = None
    total_s: float | None = 600.0

    def exceeded(self, exchange: Exchange, now_ns: int) -> Outcome | None:
        """Which limit an open exchange has passed, if any."""
        if exchange.sent_ns is None or exchange.last_event_ns is None:
            return None
        since_sent_s = (now_ns - exchange.sent_ns) / 1e9
        if self.total_s is not None and since_sent_s > self.total_s:
            return Outcome.TIMEOUT_TOTAL
        if not exchange.token_ns:
            if self.first_token_s is not None and since_sent_s > self.first_token_s:
                return Outcome.TIMEOUT_FIRST_TOKEN
        elif self.gap_s is not None and (now_ns - exchange.last_event_ns) / 1e9 > self.gap_s:
            return Outcome.TIMEOUT_GAP
        return None

    @property
    def sweep_every_s(self) -> float:
        """Often enough that the shortest limit holds to a tenth of itself."""
        limits = [limit for limit in (self.first_token_s, self.gap_s, self.total_s) if limit is not None]
        return min([0.05, *(max(limit / 10, 0.005) for limit in limits)])
