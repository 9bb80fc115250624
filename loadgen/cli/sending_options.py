"""The options of how requests are sent, the same for `replay` and `ab`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from loadgen.durations import parse_duration_s
from loadgen.errors import UsageError
from loadgen.replay.dialects import DIALECT_NAMES
from loadgen.replay.httpx_transport import has_http2
from loadgen.replay.reach import Access
from loadgen.replay.secrets import parse_proxy
from loadgen.replay.transport import TRANSPORT_NAMES

_TARGET, _SENDING, _WAITING = "Target", "Sending", "How long to wait"


def _in(panel: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, **settings)


Model = Annotated[
    str | None, _in(_TARGET, "--model", help="Model to ask for. Default: the only one that is served.")
]
EndpointType = Annotated[
    str,
    _in(_TARGET, "--endpoint-type", "--dialect", help=f"What to call: {', '.join(DIALECT_NAMES)}."),
]
Template = Annotated[
    Path | None,
    _in(_TARGET, "--template", help="TOML or JSON that says how to ask and read (endpoint type generic)."),
]
ApiKey = Annotated[
    str | None,
    _in(
        _TARGET,
        "--api-key",
        envvar="LOADGEN_API_KEY",
        help="Bearer token; better by environment or file.",
    ),
]
ApiKeyFile = Annotated[Path | None, _in(_TARGET, "--api-key-file", help="File that holds the bearer token.")]
Header = Annotated[
    list[str] | None,
    _in(_TARGET, "--header", "-H", help="Further header, 'Name: value'; may be given again."),
]
Cert = Annotated[Path | None, _in(_TARGET, "--cert", help="Client certificate (PEM).")]
CertKey = Annotated[
    Path | None, _in(_TARGET, "--cert-key", help="Its key, where that has a file of its own.")
]
Proxy = Annotated[
    str | None,
    _in(_TARGET, "--proxy", help="Through this proxy (--transport httpx); those of the shell are ignored."),
]
Insecure = Annotated[bool, _in(_TARGET, "--insecure", help="Do not check the server's TLS certificate.")]
Stream = Annotated[
    bool | None,
    _in(_SENDING, "--stream/--no-stream", help="Default: as recorded; a stream where the trace is silent."),
]
IgnoreEos = Annotated[
    bool,
    _in(
        _SENDING,
        "--ignore-eos",
        help="Ask for exactly the planned answer length (ignore_eos, min_tokens).",
    ),
]
Sessions = Annotated[
    str,
    _in(_SENDING, "--sessions", help="planned, or wait: a turn leaves once the one before it has ended."),
]
WarmupRequests = Annotated[
    int,
    _in(
        _SENDING,
        "--warmup-requests",
        min=0,
        help="Sent one after another before the start, in no figure.",
    ),
]
Retries = Annotated[
    int,
    _in(_SENDING, "--retries", min=0, help="Send a rejected request (429, 503) again, so many times."),
]
CharsPerToken = Annotated[
    int,
    _in(
        _SENDING,
        "--chars-per-token",
        min=1,
        help="Prompt characters for each planned token; 1 for the bundled server.",
    ),
]
Workers = Annotated[int, _in(_SENDING, "--workers", min=1, help="Sending processes.")]
Transport = Annotated[
    str,
    _in(_SENDING, "--transport", help="fast (HTTP/1.1), or httpx: HTTP/2, proxies, at a lower top rate."),
]
Reuse = Annotated[
    bool,
    _in(_SENDING, "--reuse/--no-reuse", help="Keep connections, or open one for each request."),
]
Http2 = Annotated[
    bool,
    _in(_SENDING, "--http2", help="HTTP/2 only, also without TLS (--transport httpx)."),
]
Realtime = Annotated[
    bool,
    _in(_SENDING, "--realtime", help="Send before ordinary processes run; needs root or CAP_SYS_NICE."),
]
MaxConcurrency = Annotated[
    int | None,
    _in(
        _SENDING,
        "--max-concurrency",
        min=1,
        help="Cap on requests in flight; off, since it ends open loop.",
    ),
]
Timeout = Annotated[str, _in(_WAITING, "--timeout", help="From send to end; or none.")]
TimeoutConnect = Annotated[str, _in(_WAITING, "--timeout-connect", help="To open a connection.")]
TimeoutFirstToken = Annotated[
    str | None, _in(_WAITING, "--timeout-first-token", help="From send to first token. Default: none.")
]
TimeoutGap = Annotated[
    str | None, _in(_WAITING, "--timeout-gap", help="Between two reads of a stream. Default: none.")
]
Drain = Annotated[
    str, _in(_WAITING, "--drain", help="After the last planned send; what still runs is unfinished.")
]


def access_from(
    *,
    headers: tuple[tuple[str, str], ...],
    insecure: bool,
    cert: Path | None,
    cert_key: Path | None,
    proxy: str | None,
    http2: bool,
    reuse: bool,
) -> Access:
    """How the target is reached, by these options."""
    return Access(
        headers=headers,
        verify_tls=not insecure,
        client_cert=None if cert is None else (str(cert), str(cert_key) if cert_key else None),
        proxy=None if proxy is None else parse_proxy(proxy),
        http2_only=http2,
        reuse=reuse,
    )


def check_sessions(sessions: str) -> None:
    """Raises UsageError for what is neither planned nor wait."""
    if sessions not in ("planned", "wait"):
        raise UsageError(f"--sessions is {sessions!r}", hint="give planned or wait")


def check_transport(
    transport: str, proxy: str | None, *, http2: bool, cert: Path | None, cert_key: Path | None
) -> None:
    """Raises UsageError where the options of a connection do not go together."""
    if transport not in TRANSPORT_NAMES:
        raise UsageError(f"--transport is {transport!r}", hint=f"give one of: {', '.join(TRANSPORT_NAMES)}")
    if transport == "fast" and (http2 or proxy is not None):
        raise UsageError(
            f"--transport fast knows no {'HTTP/2' if http2 else 'proxies'}",
            hint="give --transport httpx, too",
        )
    if http2 and not has_http2():
        raise UsageError("--http2 needs the package h2", hint="pip install 'loadgen[http2]'")
    if cert_key is not None and cert is None:
        raise UsageError("--cert-key is given without --cert", hint="give the certificate, too")


def limit_s(text: str | None, option: str) -> float | None:
    """Seconds of a limit; `none` lifts it."""
    if text is None or text.lower() == "none":
        return None
    limit_s = parse_duration_s(text, option=option)
    if limit_s <= 0:
        raise UsageError(f"{option} is {text}", hint="give a time above 0, or none")
    return limit_s
