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
    unix_socket: path of the socket to connect to, in place of address and port.
    client_cert: PEM files of a certificate and of its key (None: in the same file).
    proxy: URL of a proxy, which may hold a secret. http2_only: speak HTTP/2 from the first byte.
    reuse: keep connections for the next request.
    """

    url: str
    scheme: str
    host: str
    port: int
    address: str
    path: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    verify_tls: bool = True
    unix_socket: str | None = None
    client_cert: tuple[str, str | None] | None = None
    proxy: str | None = field(default=None, repr=False)
    http2_only: bool = False
    reuse: bool = True

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"

    @property
    def base_url(self) -> str:
        """Where the server's own paths (/metrics, /v1/models) begin."""
        for ending in _ENDPOINTS:
            if self.path.endswith(ending):
                return self.origin + self.path.removesuffix(ending)
        return self.origin + self.path

    def request_head(self, dialect: Dialect, model: str | None, *, stream: bool) -> bytes:
        """Request line and the headers that all requests share; the last ones are left to the caller."""
        endpoint = dialect.path(model, stream=stream)
        path = self.path if self.path.endswith(endpoint) else self.path.removesuffix("/v1") + endpoint
        default_port = {"http": 80, "https": 443}[self.scheme]
        name = _bracketed(self.host)
        host = name if self.port == default_port else f"{name}:{self.port}"
        accept = "*/*" if dialect.framing is Framing.WHOLE else "text/event-stream, application/json"
        lines = [
            f"{dialect.method} {path} HTTP/1.1",
            f"Host: {host}",
            f"Content-Type: {dialect.content_type}",
            f"Accept: {accept}",
            "Accept-Encoding: identity",
            *([] if self.reuse else ["Connection: close"]),
            *(f"{header}: {value}" for header, value in (*dialect.headers, *self.headers)),
        ]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n"


@dataclass(frozen=True, slots=True)
class Url:
    """The parts of a target's URL that matter here, checked. unix_socket: in place of host and port."""

    scheme: str
    host: str
    port: int
    path: str
    unix_socket: str | None = None

    def __str__(self) -> str:
        if self.unix_socket is not None:
            return f"unix:{self.unix_socket}{f' {self.path}' if self.path else ''}"
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}{self.path}"


def parse_url(text: str, *, unix_socket: str | None = None) -> Url:
    """A target's URL: http, https, or unix:/PATH for a Unix socket, which may also be given beside a URL.

    Raises UsageError for what is none; never shows a password that it holds.
    """
    if text.startswith("unix:"):
        named = text.removeprefix("unix:").removeprefix("//")
        if not named.startswith("/") or unix_socket not in (None, named):
            raise UsageError(
                "--url is no path of one Unix socket", hint="give unix:/PATH, the path from the root"
            )
        return Url("http", "localhost", 80, "", named)
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise UsageError(f"--url cannot be read: {exc}", hint="give http://HOST:PORT") from exc
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError("--url is no http or https address", hint="give http://HOST:PORT")
    if parts.username or parts.password:
        raise UsageError("--url holds a user name or password", hint="give it with --header or --api-key")
    default_port = {"http": 80, "https": 443}[parts.scheme]
    return Url(parts.scheme, host, port or default_port, parts.path.rstrip("/"), unix_socket)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long to wait, in seconds, each counted for itself; None waits for ever.

    connect_s: to open a connection. first_token_s: from the send. gap_s: between two reads after the first
    token. total_s: from the send to the end. A retry has each of them anew.
    """

    connect_s: float = 10.0
    first_token_s: float | None = None
    gap_s: float | None = None
    total_s: float | None = 600.0

    def exceeded(self, exchange: Exchange, now_ns: int) -> Outcome | None:
        """Which limit an open exchange has passed, if any."""
        if exchange.attempt_sent_ns is None or exchange.last_event_ns is None:
            return None
        since_sent_s = (now_ns - exchange.attempt_sent_ns) / 1e9
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
