"""The HTTP surface: a bare ASGI application over a Service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson
from prometheus_client import CONTENT_TYPE_LATEST

from loadgen_target.answer import DONE, Answer, error_body, error_event, usage_of
from loadgen_target.exchange import Exchange
from loadgen_target.openai import BadRequest, Kind, parse_request
from loadgen_target.request import Emission, Status
from loadgen_target.service import Refusal, Service, State
from loadgen_target.stages import TextStream

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_MAX_BODY_BYTES = 16 * 1024 * 1024
_JSON = (b"content-type", b"application/json")
_COMPLETIONS: dict[str, Kind] = {"/v1/chat/completions": "chat", "/v1/completions": "text"}
_ENDS = {
    Status.TIMEOUT: (504, "timeout", "the request ran out of time"),
    Status.ERROR: (500, "server_error", "the server could not finish this request"),
    Status.CANCELLED: (499, "cancelled", "the request was cancelled"),
}


class _Gone(Exception):
    """The client has left."""


class App:
    """Routes, errors, streaming, and noticing that a client has left."""

    def __init__(self, service: Service, facts: Callable[[], dict[str, Any]]) -> None:
        self._service = service
        self._facts = facts

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, method = scope["path"], scope["method"]
        if path in _COMPLETIONS:
            if method != "POST":
                await _send_json(
                    send, 405, error_body(405, f"{path} takes POST", kind="invalid_request_error")
                )
                return
            await self._complete(_COMPLETIONS[path], _header(scope, b"x-request-id"), receive, send)
        elif method in ("GET", "HEAD"):
            await self._get(path, send)
        else:
            await _send_json(
                send, 404, error_body(404, f"no {method} {path} here", kind="invalid_request_error")
            )

    async def _get(self, path: str, send: Send) -> None:
        service = self._service
        if path in ("/health", "/ping"):
            is_ready = service.state is State.READY
            await _send_json(send, 200 if is_ready else 503, {"status": service.state.value})
        elif path == "/v1/models" and service.state is State.LOADING:
            # Many take this path for a sign of readiness.
            await _send_json(
                send, 503, error_body(503, "not taking requests: loading", kind="service_unavailable")
            )
        elif path == "/v1/models":
            model = {
                "id": service.config.served_model_name,
                "object": "model",
                "created": 0,
                "owned_by": "loadgen",
                "max_model_len": service.config.engine.max_model_len,
            }
            await _send_json(send, 200, {"object": "list", "data": [model]})
        elif path == "/metrics":
            text = service.meters.exposition(
                num_waiting=service.num_waiting, num_preprocess_waiting=service.num_preprocess_waiting
            )
            await _send(send, 200, [(b"content-type", CONTENT_TYPE_LATEST.encode())], text)
        elif path == "/version":
            await _send_json(send, 200, {"version": self._facts()["version"]})
        elif path == "/loadgen/facts":
            await _send_json(send, 200, self._facts())
        else:
            await _send_json(send, 404, error_body(404, f"no {path} here", kind="invalid_request_error"))

    async def _complete(self, kind: Kind, x_request_id: bytes | None, receive: Receive, send: Send) -> None:
        text_id = None if x_request_id is None else x_request_id.decode("latin-1")
        exchange = self._service.open(text_id)
        name = "chatcmpl" if kind == "chat" else "cmpl"
        answer_id = f"{name}-{exchange.request_id}"
        headers: Headers = [(b"x-request-id", x_request_id or answer_id.encode())]
        status = Status.ERROR
        watch: asyncio.Task[None] | None = None
        try:
            refusal = self._service.admit(exchange)
            if refusal is not None:
                status = Status.REJECTED
                await self._refuse(exchange, refusal, headers, send)
                return
            try:
                # A client that never sends its body would keep its place among those that wait.
                async with asyncio.timeout(self._service.config.timeout_s):
                    body = await _read_body(receive)
                exchange.asked = parse_request(
                    kind,
                    body,
                    max_model_len=self._service.config.engine.max_model_len,
                    default_seed=exchange.request_id,
                )
                exchange.parsed_ns = time.monotonic_ns()
            except BadRequest as error:
                status, exchange.http_status = Status.INVALID, 400
                reply = error_body(400, error.message, kind="invalid_request_error", param=error.param)
                await _send_json(send, 400, reply, headers)
                return
            except TimeoutError:
                status = Status.TIMEOUT
                await _send_end(status, exchange, headers, send)
                return
            watch = asyncio.create_task(_watch(receive, exchange))
            await self._service.submit(exchange)
            answer = Answer(
                kind,
                answer_id,
                self._service.config.served_model_name,
                exchange.recv_unix_ns // 1_000_000_000,
            )
            if exchange.asked.is_stream:
                status = await self._stream(exchange, answer, headers, send)
            else:
                status = await self._whole(exchange, answer, headers, send)
        except _Gone:
            status = Status.CANCELLED
        finally:
            if watch is not None:
                watch.cancel()
            self._service.close(exchange, status)

    async def _refuse(self, exchange: Exchange, refusal: Refusal, headers: Headers, send: Send) -> None:
        exchange.http_status = refusal.http_status
        kind = "rate_limit_exceeded" if refusal.http_status == 429 else "service_unavailable"
        await _send_json(
            send,
            refusal.http_status,
            error_body(refusal.http_status, refusal.message, kind=kind),
            [*headers, (b"retry-after", str(refusal.retry_after_s).encode())],
        )

    async def _stream(self, exchange: Exchange, answer: Answer, headers: Headers, send: Send) -> Status:
        """One event a token. Headers go out with the first one, so that what ends before keeps its status code."""
        asked = exchange.asked
        assert asked is not None
        text = TextStream(asked.sampling.stops)
        while True:
            events: list[bytes] = []
            end = None
            for emission in await _taken(exchange):
                end = emission.ended
                if end is not None and end.status is not Status.OK:
                    break
                events += _chunks(emission, text, answer)
            if end is not None and end.status is not Status.OK:
                if exchange.http_status is None and not events:
                    await _send_end(end.status, exchange, headers, send)
                    return end.status
                http_status, kind, message = _ENDS[end.status]
                events.append(error_event(http_status, message, kind=kind))
            elif end is not None:
                exchange.finished_ns = time.monotonic_ns()
                if asked.includes_usage:
                    usage = usage_of(asked.num_prompt_tokens, exchange.output_tokens)
                    events.append(answer.usage_chunk(usage, exchange.metrics(self._service.policy_name)))
            if exchange.http_status is None:
                exchange.http_status = 200
                timing = (b"server-timing", exchange.server_timing().encode())
                start = [*headers, (b"content-type", b"text/event-stream; charset=utf-8"), timing]
                await send({"type": "http.response.start", "status": 200, "headers": start})
            if end is None:
                await send({"type": "http.response.body", "body": b"".join(events), "more_body": True})
                continue
            await send({"type": "http.response.body", "body": b"".join([*events, DONE]), "more_body": False})
            return end.status

    async def _whole(self, exchange: Exchange, answer: Answer, headers: Headers, send: Send) -> Status:
        asked = exchange.asked
        assert asked is not None
        text, parts = TextStream(asked.sampling.stops), []
        end = None
        while end is None:
            for emission in await _taken(exchange):
                end = emission.ended
                if end is None:
                    parts.append(text.push(emission.tokens))
                else:
                    parts.append(text.finish(emission.tokens, end.matched_stop))
        if end.status is not Status.OK:
            await _send_end(end.status, exchange, headers, send)
            return end.status
        exchange.finished_ns = time.monotonic_ns()
        exchange.http_status = 200
        usage = usage_of(asked.num_prompt_tokens, exchange.output_tokens)
        metrics = exchange.metrics(self._service.policy_name)
        body = answer.whole("".join(parts), end.finish_reason, usage, metrics)
        timing = (b"server-timing", exchange.server_timing().encode())
        await _send(send, 200, [*headers, _JSON, timing], body)
        return Status.OK


def _chunks(emission: Emission, text: TextStream, answer: Answer) -> list[bytes]:
    """Events of an emission; none for tokens whose text is held back."""
    if emission.ended is not None:
        return [
            answer.chunk(
                text.finish(emission.tokens, emission.ended.matched_stop), emission.ended.finish_reason
            )
        ]
    return [answer.chunk(piece, None) for token in emission.tokens if (piece := text.push((token,)))]


async def _taken(exchange: Exchange) -> list[Emission]:
    taken = await exchange.take()
    if exchange.is_gone:
        raise _Gone
    return taken


async def _watch(receive: Receive, exchange: Exchange) -> None:
    """Wait until the client has left. After the body, a disconnect is all that can come."""
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.leave()


async def _read_body(receive: Receive) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _Gone
        part = message.get("body", b"")
        size += len(part)
        if size > _MAX_BODY_BYTES:
            raise BadRequest(f"the body is larger than {_MAX_BODY_BYTES} bytes")
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _header(scope: MutableMapping[str, Any], name: bytes) -> bytes | None:
    return next((value for key, value in scope["headers"] if key == name), None)


async def _send_end(status: Status, exchange: Exchange, headers: Headers, send: Send) -> None:
    """An end other than an answer, while the status code can still say it."""
    exchange.http_status, kind, message = _ENDS[status]
    await _send_json(
        send, exchange.http_status, error_body(exchange.http_status, message, kind=kind), headers
    )


async def _send_json(send: Send, status: int, value: dict[str, Any], headers: Headers | None = None) -> None:
    await _send(send, status, [*(headers or []), _JSON], orjson.dumps(value))


async def _send(send: Send, status: int, headers: Headers, body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
