"""Exchange: one request and what came back, as moments and an outcome.

Pure: it is told what happened and when (ns on the run's clock), and touches neither socket nor clock.
"""

from __future__ import annotations

import errno
import operator
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import orjson

from loadgen.replay.alike import Alike, is_text
from loadgen.replay.dialects.dialect import TOLD_ANSWER, TOLD_REASONING, Dialect, Framing, Part, Told
from loadgen.replay.dialects.failure import MAX_ERROR_CHARS, message_of, plain_text
from loadgen.replay.familiar import Familiar
from loadgen.replay.lines import LineScanner
from loadgen.replay.request_record import SERVER_STAGES, Outcome, Phase
from loadgen.replay.sse import SseScanner

# A whole answer (or an unfinished event) beyond this is no answer of an inference server.
MAX_BODY_BYTES = 64 * 1024 * 1024

# So many times an event is looked at for what those after it will have in common with it, and they had not.
_MAX_VAIN_LOOKS = 8

# What the records can hold; a server that says more than that is not believed.
_MAX_TOKENS = 2**31 - 1
_MAX_MOMENT = 2**62

_REJECTED = frozenset({429, 503})
_MOMENTS = (
    "dispatched_ns", "sent_ns", "headers_ns", "first_byte_ns", "first_answer_token_ns", "last_token_ns", "end_ns",
)  # fmt: skip
# What the operating system says when this machine, not the target, has run out of something.
_OWN_LIMITS = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})


class Exchange:
    """The state of one request from its dispatch to its end; `outcome` is None until it has ended.

    index: its place in the worker's share of the schedule. Moments are None until they happen.
    token_ns: the arrival of each token event, int ns. familiar: what events of earlier exchanges told.
    """

    __slots__ = (
        "_body",
        "_decoder",
        "_dialect",
        "_familiar",
        "_has_finish",
        "_is_event_stream",
        "_last_event_ns",
        "_looked_at",
        "_read_event",
        "_reader",
        "_scanner",
        "_vain_looks_left",
        "alike",
        "attempt_sent_ns",
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
        "last_token_ns",
        "num_reconnects",
        "num_retries",
        "outcome",
        "output_tokens",
        "phase",
        "planned_ns",
        "prompt_tokens",
        "released_ns",
        "retry_after_s",
        "sent_ns",
        "server_metrics",
        "status_code",
        "stream",
        "token_ns",
        "warmup_copy",
    )

    def __init__(
        self, index: int, planned_ns: int, dialect: Dialect, *, stream: bool, familiar: Familiar | None = None
    ) -> None:
        self._familiar = familiar or Familiar()
        self.index = index
        self.planned_ns = planned_ns
        self.stream = stream
        self._dialect = dialect
        self.dispatched_ns: int | None = None
        self.released_ns: int | None = None
        self.sent_ns: int | None = None
        self.num_retries = 0
        self.retry_after_s: float | None = None
        self.phase = Phase.RUN
        self.warmup_copy = 0  # of a warm-up's record, where the run's has its copy
        self.connection_reused: bool | None = None
        self.held_payload: bytes | None = (
            None  # while something of ours keeps it waiting, or may send it again
        )
        self._begin()

    def _begin(self) -> None:
        """What each attempt begins with."""
        self.attempt_sent_ns: int | None = None
        self.headers_ns: int | None = None
        self.first_byte_ns: int | None = None
        self.first_answer_token_ns: int | None = None
        self.last_token_ns: int | None = None
        self._last_event_ns: int | None = None
        self.end_ns: int | None = None
        self.outcome: Outcome | None = None
        self.error: str | None = None
        self.status_code: int | None = None
        self.finish_reason: str | None = None
        self.prompt_tokens: int | None = None
        self.output_tokens: int | None = None
        self.token_ns: list[int] = []
        self.num_reconnects = 0
        self.server_metrics: dict[str, Any] | None = None
        self._has_finish = False
        self._is_event_stream = False
        self._scanner = LineScanner() if self._dialect.framing is Framing.LINES else SseScanner()
        self._reader = self._dialect.reader()
        self._read_event: Callable[[bytes, bytes], Told] = self._reader.event
        if self._reader.texts:
            self._read_event = partial(self._familiar.told, self._reader.event)
        self.alike: Alike | None = None
        self._looked_at = 0  # number of token events when an event was looked at last
        self._vain_looks_left = _MAX_VAIN_LOOKS if self._reader.texts else 0
        self._decoder: Any = None
        self._body: list[bytes] = []

    def on_sent(self, now_ns: int) -> None:
        """The first byte goes to a socket now. The first time counts; limits count from the attempt's."""
        if self.attempt_sent_ns is None:
            self.attempt_sent_ns = self._last_event_ns = now_ns
            if self.sent_ns is None:
                self.sent_ns = now_ns

    @property
    def last_event_ns(self) -> int | None:
        """When it was sent, or anything came of its answer; None before that."""
        if self.token_ns and self._last_event_ns is not None:
            return max(self._last_event_ns, self.token_ns[-1])
        return self._last_event_ns

    @property
    def num_coalesced(self) -> int:
        """Token events that came in the same read as the one before."""
        return sum(map(operator.eq, self.token_ns, self.token_ns[1:]))

    def retry(self) -> None:
        """Forget the answer that was a rejection; the request is to be sent again."""
        self.num_retries += 1
        self._begin()

    def shift(self, by_ns: int) -> None:
        """Move all moments to another clock's zero."""
        self.planned_ns += by_ns
        self.token_ns = [moment_ns + by_ns for moment_ns in self.token_ns]
        for name in _MOMENTS:
            moment_ns = getattr(self, name)
            if moment_ns is not None:
                setattr(self, name, moment_ns + by_ns)

    def on_headers(self, status_code: int, headers: dict[bytes, bytes], now_ns: int) -> None:
        """The head of the answer is complete. headers: names in lower case."""
        self.status_code = status_code
        self.headers_ns = self._last_event_ns = now_ns
        content_type = headers.get(b"content-type", b"")
        self._is_event_stream = self.stream and 200 <= status_code < 300 and self._can_stream(content_type)
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding in (b"gzip", b"x-gzip", b"deflate"):
            self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
            self._vain_looks_left = 0  # what is alike is not what was read
        elif encoding not in (b"identity", b""):
            self.error = f"unknown content-encoding {encoding.decode('latin-1')}"
        if status_code in _REJECTED and b"retry-after" in headers:
            try:
                self.retry_after_s = float(headers[b"retry-after"])
            except ValueError:
                self.retry_after_s = None  # an HTTP date: rare, and no figure for it is needed

    def on_body(self, data: bytes, now_ns: int) -> None:  # noqa: PLR0911, PLR0912  # one piece: calls cost
        """A piece of the body was read at `now_ns`."""
        alike = self.alike
        # Nearly every read. What this costs is most of what an event costs.
        if (
            alike is not None
            and data.startswith(alike.before)
            and data.endswith(alike.after)
            and is_text(data, alike.start, len(data) - alike.tail)
        ):
            self.token_ns.append(now_ns)
            return
        if self.first_byte_ns is None:
            self.first_byte_ns = now_ns
        self._last_event_ns = now_ns
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
        was_between_events = self._scanner.is_between_events
        events = self._scanner.feed(data)
        try:
            for name, event in events:
                if event == b"[DONE]":
                    self._end_stream(now_ns)
                    return
                told = self._read_event(name, event)
                if told is TOLD_ANSWER or told.part is not Part.NOTHING:
                    if self.first_answer_token_ns is None and told.part is Part.ANSWER:
                        self.first_answer_token_ns = now_ns
                    self.token_ns.append(now_ns)
                if told is TOLD_ANSWER:
                    continue
                self._take(told)
                if told.is_last:
                    self._end_stream(now_ns)
                    return
        except (AttributeError, KeyError, IndexError, TypeError):
            self.error = self.error or "an event has a form that no known server sends"
            return
        if not self._scanner.is_between_events:
            self.alike = None
        elif (
            self._vain_looks_left
            and was_between_events
            and len(events) == 1
            and (told is TOLD_ANSWER or told is TOLD_REASONING)
        ):
            self._look_at(data, event)

    def on_complete(self, now_ns: int) -> None:
        """The answer ended as HTTP says it should."""
        if self.outcome is not None:
            return
        assert self.status_code is not None
        if not 200 <= self.status_code < 300:
            outcome = Outcome.REJECTED if self.status_code in _REJECTED else Outcome.HTTP_ERROR
            self._end(outcome, now_ns, self._error_text())
        elif self._is_event_stream:
            if self._dialect.framing is Framing.LINES and self.first_byte_ns is not None:
                self._decoder = None
                self.on_body(b"\n", now_ns)  # the last line may lack its end
                if self.outcome is not None:
                    return
            if self._has_finish or self.error is not None or not self._dialect.has_end_mark:
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

    def _can_stream(self, content_type: bytes) -> bool:
        """Whether a body of this type is a stream, which was asked for: some servers ignore that.

        They answer with one JSON document. Some send events as text/plain.
        """
        if self._dialect.framing is Framing.LINES:
            return content_type.partition(b";")[0].strip() != b"application/json"
        return b"json" not in content_type

    def _look_at(self, block: bytes, event: bytes) -> None:
        """Know those like it from now on: after this one, each tells of one more token and of nothing else."""
        if len(self.token_ns) - self._looked_at <= 2:  # this one and the one before
            self._vain_looks_left -= 1
        self._looked_at = len(self.token_ns)
        self.alike = self._familiar.alike_of(block, event, self._reader.texts)

    def _take(self, told: Told) -> None:
        """Keep what an answer told of itself. Counts are running totals: the last one wins."""
        if told.error is not None:
            self.error = self.error or told.error  # the first is the cause of what follows
        if told.finish_reason is not None:
            self.finish_reason = told.finish_reason[:32]
            self._has_finish = True
        if told.is_last:
            self._has_finish = True
        if _is_count(told.prompt_tokens):
            self.prompt_tokens = told.prompt_tokens
        if _is_count(told.output_tokens):
            self.output_tokens = told.output_tokens
        if told.metrics is not None:
            self._take_metrics(told.metrics)

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
            told = self._reader.whole(b"".join(self._body))
        except ValueError:
            self._end(Outcome.RESET, now_ns, "answer is no JSON")
            return
        self._take(told)
        if self.error is not None:
            self._end(Outcome.STREAM_ERROR, now_ns, self.error)
        elif told.part is Part.NOTHING:
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
        self.alike = None

    def _error_text(self) -> str:
        body = b"".join(self._body)
        try:
            document = orjson.loads(body)
            text = message_of(document.get("error") or document)
        except (orjson.JSONDecodeError, AttributeError):
            text = plain_text(body)
        return f"HTTP {self.status_code}: {text}" if text else f"HTTP {self.status_code}"

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


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MAX_TOKENS
