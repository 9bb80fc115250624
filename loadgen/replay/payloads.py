"""Payloads: each request's bytes, made ahead of its moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from loadgen.plan.prompts import CHARS_PER_TOKEN, PromptMaker
from loadgen.replay.dialects.dialect import Ask, Dialect
from loadgen.replay.dialects.template import Template
from loadgen.replay.target import Target

# Bytes held ready: enough for seconds of heavy load, and flat memory for hours of it.
_AHEAD_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Asking:
    """How every request of a run is put.

    run_id: begins each X-Request-Id, which ends in -<trace_row>-<copy>. stream: True or False for all, None
    as the trace says (a stream where it does not). force_length: ask for exactly the planned answer length.
    template: of the endpoint type generic.
    """

    endpoint_type: str
    model: str | None
    run_id: str
    stream: bool | None = None
    force_length: bool = False
    template: Template | None = None


class Payloads:
    """Whole HTTP requests in the order of a share; `build_ahead` keeps a stock, `take` hands out the next."""

    def __init__(
        self, share: pa.Table, target: Target, dialect: Dialect, prompts: PromptMaker, asking: Asking
    ) -> None:
        self._dialect = dialect
        self._prompts = prompts
        self._asking = asking
        self._heads = {
            stream: target.request_head(dialect, asking.model, stream=stream) for stream in (True, False)
        }
        self._num_requests = share.num_rows
        self._input_chars: list[int] = prompts.lengths_chars(share).tolist()
        self._blocks = share.column("prefix_blocks")
        self._trace_row: list[int] = share.column("trace_row").to_pylist()
        self._copy: list[int] = share.column("copy").to_pylist()
        self._output_tokens = _answer_limits(share)
        fixed_stream = dialect.fixed_stream
        self._stream = _streams(share, asking.stream if fixed_stream is None else fixed_stream)
        self._next_built = 0
        self._ready: deque[bytes] = deque()
        self._ready_bytes = 0

    def stream_of(self, index: int) -> bool:
        """Whether request `index` asks for a stream."""
        return self._stream[index]

    def take(self) -> bytes:
        """The next request's bytes, built now if the stock ran out."""
        if not self._ready:
            self._build_one()
        payload = self._ready.popleft()
        self._ready_bytes -= len(payload)
        return payload

    def build_ahead(self, may_go_on: Callable[[], bool]) -> None:
        """Fill the stock while `may_go_on()`."""
        while self._next_built < self._num_requests and self._ready_bytes < _AHEAD_BYTES and may_go_on():
            self._build_one()

    def _build_one(self) -> None:
        index = self._next_built
        ask = Ask(
            model=self._asking.model,
            prompt=self._prompts.text(
                (self._trace_row[index] << 16) + self._copy[index],
                self._input_chars[index],
                self._blocks[index].as_py() or (),
            ),
            output_tokens=self._output_tokens[index],
            stream=self._stream[index],
            force_length=self._asking.force_length,
        )
        body = self._dialect.body(ask)
        request_id = f"{self._asking.run_id}-{self._trace_row[index]}-{self._copy[index]}"
        payload = b"%bX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            self._heads[ask.stream],
            request_id.encode(),
            len(body),
            body,
        )
        self._ready.append(payload)
        self._ready_bytes += len(payload)
        self._next_built = index + 1


def _streams(share: pa.Table, stream: bool | None) -> list[bool]:
    """Whether each request asks for a stream: as told, else as recorded, else yes."""
    if stream is not None:
        return [stream] * share.num_rows
    return [recorded is not False for recorded in share.column("stream").to_pylist()]


def _answer_limits(share: pa.Table) -> list[int | None]:
    """The planned answer length in tokens; characters or bytes stand in at four to a token; at least 1."""
    limits: list[int | None] = []
    columns = [share.column(f"output_{unit}").to_pylist() for unit in ("tokens", "chars", "bytes")]
    for tokens, chars, octets in zip(*columns, strict=True):
        text_length = chars if chars is not None else octets
        if tokens is not None:
            limits.append(max(tokens, 1))
        else:
            limits.append(None if text_length is None else max(1, -(-text_length // CHARS_PER_TOKEN)))
    return limits
