"""Exchange: one request and what came back, as moments and an outcome.

Pure: it is told what happened and when (ns on the run's clock), and touches neither socket nor clock.
"""

from __future__ import annotations

import errno
import zlib
from typing import Any

import orjson

from loadgen.replay.dialects.dialect import Dialect, Part
from loadgen.replay.request_record import SERVER_STAGES, Outcome
from loadgen.replay.sse import SseScanner

# An error text longer than this tells nothing more and would swell the records.
MAX_ERROR_CHARS = 300
# A whole answer (or an unfinished event) beyond this is no answer of an inference server.
MAX_BODY_BYTES = 64 * 1024 * 1024

# What the records can hold; a server that says more than that is not believed.
_MAX_TOKENS = 2**31 - 1
_MAX_MOMENT = 2**62

_REJECTED = frozenset({429, 503})
# What the operating system says when this machine, not the target, has run out of something.
_OWN_LIMITS = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})


class Exchange:
    """The state of one request from its dispatch to its end; `outcome` is None until it has ended.

    index: its place in the worker's share of the schedule. Moments are None until they happen.
    token_ns: the arrival of each token event, int ns.
    """

    __slots__ = (
        "_body",
        "_decoder",
        "_dialect",
        "_has_finish",
        "_is_event_stream",
        "_last_read_ns",
        "_scanner",
        "connection_reused",
        "dispatched_ns",
        "end_ns",
        "error",
        "finish_reason",
        "first_answer_token_ns",
        "first_byte_ns",
        "headers_ns",
        "held_payload",
        "index",
        "last_event_ns",
        "last_token_ns",
        "num_coalesced",
        "num_reconnects",
        "outcome",
        "output_tokens",
        "planned_ns",
        "prompt_tokens",
        "retry_after_s",
        "sent_ns",
        "server_metrics",
        "status_code",
        "stream",
        "token_ns",
    )

    def __init__(self, index: int, planned_ns: int, dialect: Dialect, *, stream: bool) -> None:
        self.index = index
        self.planned_ns = planned_ns
        self.stream = stream
        self._dialect = dialect
        self.dispatched_ns: int | None = None
        self.sent_ns: int | None = None
        self.headers_ns: int | None = None
        self.first_byte_ns: int | None = None
        self.first_answer_token_ns: int | None = None
        self.last_token_ns: int | None = None
        self.last_event_ns: int | None = None
        self.end_ns: int | None = None
        self.outcome: Outcome | None = None
        self.error: str | None = None
        self.status_code: int | None = None
        self.retry_after_s: float | None = None
        self.finish_reason: str | None = None
        self.prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self.token_ns: list[int] = []
        self.num_coalesced = 0
        self.num_reconnects = 0
        self.connection_reused: bool | None = None
        self.server_metrics: dict[str, Any] | None = None
        self.held_payload: bytes | None = None  # while a cap on requests in flight keeps it waiting
        self._has_finish = False
        self._is_event_stream = False
        self._last_read_ns = -1
        self._scanner = SseScanner()
        self._decoder: Any = None
        self._body: list[bytes] = []

    def on_headers(self, status_code: int, headers: dict[bytes, bytes], now_ns: int) -> None:
        """The head of the answer is complete. headers: names in lower case."""
        self.status_code = status_code
        self.headers_ns = self.last_event_ns = now_ns
        content_type = headers.get(b"content-type", b"")
        # A server that ignores "stream" answers with one JSON document, and some send events as text/plain.
        self._is_event_stream = self.stream and 200 <= status_code < 300 and b"json" not in content_type
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding in (b"gzip", b"x-gzip", b"deflate"):
            self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
        elif encoding not in (b"identity", b""):
            self.error = f"unknown content-encoding {encoding.decode('latin-1')}"
        if status_code in _REJECTED and b"retry-after" in headers:
            try:
                self.retry_after_s = float(headers[b"retry-after"])
            except ValueError:
                self.retry_after_s = None  # an HTTP date: rare, and no figure for it is needed

    def on_body(self, data: bytes, now_ns: int) -> None:
        """A piece of the body was read at `now_ns`."""
        if self.first_byte_ns is None:
            self.first_byte_ns = now_ns
        self.last_event_ns = now_ns
        if self.outcome is not None:
            return
        if self._decoder is not None:
            try:
                data = self._decoder.decompress(data)
            except zlib.error as exc:
                self._end(Outcome.RESET, now_ns, f"content-encoding cannot be decoded: {exc}")
                return
        if not self._is_event_stream:
            self._body.append(data)
            if len(self._body) > 1 and sum(map(len, self._body)) > MAX_BODY_BYTES:
                self._end(Outcome.RESET, now_ns, f"answer is over {MAX_BODY_BYTES} bytes")
            return
        try:
            for name, event in self._scanner.feed(data):
                if event == b"[DONE]":
                    self._end_stream(now_ns)
                    return
                self._on_event(name, event, now_ns)
        except (AttributeError, KeyError, IndexError, TypeError):
            self.error = "an event has a form that no known server sends"

    def on_complete(self, now_ns: int) -> None:
        """The answer ended as HTTP says it should."""
        if self.outcome is not None:
            return
        assert self.status_code is not None
        if not 200 <= self.status_code < 300:
            outcome = Outcome.REJECTED if self.status_code in _REJECTED else Outcome.HTTP_ERROR
            self._end(outcome, now_ns, self._error_text())
        elif self._is_event_stream:
            if self._has_finish or self.error is not None:
                self._end_stream(now_ns)
            else:
                self._end(Outcome.INCOMPLETE_STREAM, now_ns, "ended without finish_reason or [DONE]")
        else:
            try:
                self._end_document(now_ns)
            except (AttributeError, KeyError, IndexError, TypeError):
                self._end(Outcome.STREAM_ERROR, now_ns, "the answer has a form that no known server sends")

    def on_lost(self, error: Exception | None, now_ns: int) -> None:
        """The connection closed before the answer was complete; error is None for a clean end of file."""
        if self.outcome is not None:
            return
        if self.error is not None:
            self._end(Outcome.STREAM_ERROR, now_ns, self.error)
        elif self.headers_ns is not None and error is None and self.status_code == 200:
            self._end(Outcome.INCOMPLETE_STREAM, now_ns, "connection closed before the answer was complete")
        else:
            self._end(Outcome.RESET, now_ns, str(error) if error else "connection closed without an answer")

    def fail_connect(self, error: OSError, now_ns: int) -> None:
        """No connection could be made."""
        if error.errno in _OWN_LIMITS:
            self._end(Outcome.CLIENT_ERROR, now_ns, f"this machine's limit: {error.strerror}")
        elif error.errno == errno.ETIMEDOUT:
            self._end(Outcome.TIMEOUT_CONNECT, now_ns, str(error))
        else:
            self._end(Outcome.REFUSED, now_ns, error.strerror or str(error))

    def stop(self, outcome: Outcome, now_ns: int, error: str | None = None) -> None:
        """End it from our side: a timeout, or the end of the run. A stream that had told of an error keeps it."""
        if self.outcome is None and self.error is not None and self._is_event_stream:
            self._end(Outcome.STREAM_ERROR, now_ns, self.error)
        elif self.outcome is None:
            self._end(outcome, now_ns, error)

    def _on_event(self, name: bytes, event: bytes, now_ns: int) -> None:
        try:
            document = orjson.loads(event)
        except orjson.JSONDecodeError:
            document = None
        if not isinstance(document, dict):
            if name == b"error" or self.error is None:
                self.error = f"event is no JSON object: {event[:80]!r}" if name != b"error" else _text(event)
            return
        failure = document.get("error")
        if failure or name == b"error" or document.get("object") == "error":
            self.error = _message(failure or document)
            return
        choices = document.get("choices")
        if choices:
            choice = choices[0]
            if choice.get("finish_reason"):
                self.finish_reason = str(choice["finish_reason"])[:32]
                self._has_finish = True
            part = self._dialect.part(choice)
            if part is not Part.NOTHING:
                if self.first_answer_token_ns is None and part is Part.ANSWER:
                    self.first_answer_token_ns = now_ns
                if self._last_read_ns == now_ns:
                    self.num_coalesced += 1
                self._last_read_ns = now_ns
                self.token_ns.append(now_ns)
        if document.get("usage"):
            self._take_usage(document["usage"])
        if "metrics" in document:
            self._take_metrics(document["metrics"])

    def _end_stream(self, now_ns: int) -> None:
        if self.error is not None:
            self._end(Outcome.STREAM_ERROR, now_ns, self.error)
        elif self.token_ns:
            self._end(Outcome.OK, now_ns)
        else:
            self._end(Outcome.EMPTY, now_ns)

    def _end_document(self, now_ns: int) -> None:
        """A whole answer at once: its last token came with its last byte, its first one nobody saw."""
        try:
            document = orjson.loads(b"".join(self._body))
        except orjson.JSONDecodeError:
            self._end(Outcome.RESET, now_ns, "answer is no JSON")
            return
        if not isinstance(document, dict) or document.get("error"):
            failure = document.get("error") if isinstance(document, dict) else "answer is no JSON object"
            self._end(Outcome.STREAM_ERROR, now_ns, _message(failure))
            return
        self._take_usage(document.get("usage") or {})
        self._take_metrics(document.get("metrics") or {})
        choices = document.get("choices") or [{}]
        finish = choices[0].get("finish_reason")
        self.finish_reason = str(finish)[:32] if finish else None
        if self._dialect.part(choices[0]) is Part.NOTHING:
            self._end(Outcome.EMPTY, now_ns)
        else:
            self.last_token_ns = now_ns
            self._end(Outcome.OK, now_ns)

    def _end(self, outcome: Outcome, now_ns: int, error: str | None = None) -> None:
        self.outcome = outcome
        self.end_ns = now_ns
        self.error = error[:MAX_ERROR_CHARS] if error else None
        if self.token_ns:
            self.last_token_ns = self.token_ns[-1]
        self._body = []

    def _error_text(self) -> str:
        body = b"".join(self._body)
        try:
            document = orjson.loads(body)
            text = _message(document.get("error") or document)
        except (orjson.JSONDecodeError, AttributeError):
            text = _text(body)
        return f"HTTP {self.status_code}: {text}" if text else f"HTTP {self.status_code}"

    def _take_usage(self, usage: Any) -> None:
        """Running totals: the last value wins, they are never added up."""
        if not isinstance(usage, dict):
            return
        prompt, output = usage.get("prompt_tokens"), usage.get("completion_tokens")
        if isinstance(prompt, int) and 0 <= prompt <= _MAX_TOKENS:
            self.prompt_tokens = prompt
        if isinstance(output, int) and 0 <= output <= _MAX_TOKENS:
            self.output_tokens = output

    def _take_metrics(self, metrics: Any) -> None:
        stages = metrics.get("loadgen") if isinstance(metrics, dict) else None
        if not isinstance(stages, dict):
            return
        moments = [stages.get(f"{name}_us") for name in SERVER_STAGES]
        received, batch = stages.get("recv_unix_ns"), stages.get("mean_batch")
        if all(isinstance(moment, int) and 0 <= moment <= _MAX_MOMENT for moment in moments):
            self.server_metrics = {
                **{f"{name}_us": moment for name, moment in zip(SERVER_STAGES, moments, strict=True)},
                "recv_unix_ns": received
                if isinstance(received, int) and 0 <= received <= _MAX_MOMENT
                else None,
                "mean_batch": float(batch) if isinstance(batch, int | float) else None,
            }


def _message(failure: Any) -> str:
    if isinstance(failure, dict):
        return str(failure.get("message") or failure.get("detail") or failure)[:MAX_ERROR_CHARS]
    return str(failure)[:MAX_ERROR_CHARS]


def _text(data: bytes) -> str:
    return " ".join(data[: 4 * MAX_ERROR_CHARS].decode("utf-8", "replace").split())[:MAX_ERROR_CHARS]
