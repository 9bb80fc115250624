"""Reach: is the target there, at which address, under which model name, and what does it say of itself?

The control plane: before the first send, never on a measured path. The one module of replay that knows httpx.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from typing import Any

import httpx

from loadgen.errors import TargetError, UsageError
from loadgen.replay.target import Target, Url
from loadgen.replay.tls import tls_context

_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Reached:
    """What was found before the run. facts: the target's own account of its set-up; None if it gives none."""

    target: Target
    model: str | None
    facts: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Access:
    """How to get to a target: what its Target holds besides the URL."""

    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    verify_tls: bool = True
    client_cert: tuple[str, str | None] | None = None
    proxy: str | None = field(default=None, repr=False)
    http2_only: bool = False
    reuse: bool = True


def reach(url: Url, access: Access, *, model: str | None, needs_model: bool = True) -> Reached:
    """Resolve, connect once, and ask for the model's name where none was given and one is needed.

    Raises TargetError when nobody answers, UsageError when the model cannot be known.
    """
    target = Target(
        url=str(url),
        scheme=url.scheme,
        host=url.host,
        port=url.port,
        address=_address(url, access.proxy),
        path=url.path,
        headers=access.headers,
        verify_tls=access.verify_tls,
        unix_socket=url.unix_socket,
        client_cert=access.client_cert,
        proxy=access.proxy,
        http2_only=access.http2_only,
        reuse=access.reuse,
    )
    # trust_env=False: a proxy in the environment must not stand between us and the target unasked.
    with httpx.Client(
        base_url=target.base_url,
        headers=dict(access.headers),
        timeout=_TIMEOUT_S,
        trust_env=False,
        transport=httpx.HTTPTransport(**_way(target)),
    ) as client:
        name = model or (_only_model(client, target.url) if needs_model else None)
        return Reached(target, name, _facts(client))


def metrics_transport(target: Target) -> httpx.AsyncBaseTransport:
    """What carries questions that are asked of `target` beside the requests, the same way as they go."""
    return httpx.AsyncHTTPTransport(**_way(target))


def _way(target: Target) -> dict[str, Any]:
    return {
        "verify": tls_context(target) or True,
        "proxy": target.proxy,
        "uds": target.unix_socket,
        "http1": not target.http2_only,
        "http2": target.http2_only,
        "trust_env": False,
    }


def _address(url: Url, proxy: str | None) -> str:
    """The first address of the host that accepts a connection; the host itself where only a proxy knows."""
    if proxy is not None:
        return url.host
    if url.unix_socket is not None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(_TIMEOUT_S)
            try:
                probe.connect(url.unix_socket)
            except OSError as exc:
                raise _unreachable(url, exc) from exc
        return url.host
    try:
        found = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise TargetError(
            f"{url}: host {url.host} is not known ({exc.strerror or exc})", hint="check --url"
        ) from exc
    reason: OSError | None = None
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as probe:
            probe.settimeout(_TIMEOUT_S)
            try:
                probe.connect(address)
            except OSError as exc:
                reason = exc
                continue
            return str(address[0])
    raise _unreachable(url, reason) from reason


def _unreachable(url: Url, reason: OSError | None) -> TargetError:
    return TargetError(
        f"{url}: cannot connect ({reason.strerror or reason if reason else 'no address'})",
        hint="start the target first, or check --url; `loadgen serve` starts the bundled one",
    )


def _only_model(client: httpx.Client, url: str) -> str:
    hint = "name it with --model"
    try:
        answer = client.get("/v1/models")
        answer.raise_for_status()
        models = [str(entry["id"]) for entry in answer.json()["data"]]
    except httpx.TransportError as exc:
        raise TargetError(
            f"{url}: cannot be talked to ({_words(exc)})",
            hint="check --url; --insecure accepts a certificate that nobody signed",
        ) from exc
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as exc:
        if isinstance(exc, httpx.HTTPStatusError) and exc.response.status_code == 503:
            raise TargetError(
                f"{url}: is not ready (/v1/models: {_words(exc)})",
                hint="wait until it has loaded, then try again",
            ) from exc
        if isinstance(exc, httpx.HTTPStatusError) and exc.response.status_code in (401, 403):
            hint = "it asks for a key, or for another one: give it with --api-key-file or LOADGEN_API_KEY"
        raise UsageError(
            f"the target does not say which model it serves (/v1/models: {_words(exc)})", hint=hint
        ) from exc
    if len(models) != 1:
        raise UsageError(
            f"the target serves {len(models)} models: {', '.join(models[:5]) or 'none'}", hint=hint
        )
    return models[0]


def _facts(client: httpx.Client) -> dict[str, Any] | None:
    """GET /loadgen/facts (the bundled target) or /version (vLLM and others)."""
    for path in ("/loadgen/facts", "/version"):
        try:
            answer = client.get(path)
            facts = answer.json() if answer.status_code == 200 else None
        except (httpx.HTTPError, ValueError):
            continue
        if isinstance(facts, dict):
            return facts
    return None


def _words(exc: Exception) -> str:
    if isinstance(exc, httpx.HTTPStatusError):
        return f"HTTP {exc.response.status_code}"
    return str(exc) or type(exc).__name__
