"""Payloads: each request's bytes, made ahead of its moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from loadgen.plan.prompts import CHARS_PER_TOKEN, Prompts
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
    template: of the endpoint type generic. grow_sessions: a turn's prompt begins with that of the turn before.
    """

    endpoint_type: str
    model: str | None
    run_id: str
    stream: bool | None = None
    force_length: bool = False
    template: Template | None = None
    grow_sessions: bool = False


class Payloads:
    """Whole HTTP requests in the order of a share; `build_ahead` keeps a stock, `take` hands out the next."""

    def __init__(
        self, share: pa.Table, target: Target, dialect: Dialect, prompts: Prompts, asking: Asking
    ) -> None:
        self._dialect = dialect
        self._prompts = prompts
        self._asking = asking
        self._heads = {
            stream: target.request_head(dialect, asking.model, stream=stream) for stream in (True, False)
        }
        self._num_requests = share.num_rows
        self._input_lengths: list[int] = prompts.lengths(share).tolist()
        self._blocks = share.column("prefix_blocks")
        self._trace_row: list[int] = share.column("trace_row").to_pylist()
        self._copy: list[int] = share.column("copy").to_pylist()
        self._output_tokens = _answer_limits(share)
        fixed_stream = dialect.fixed_stream
        self._stream = _streams(share, asking.stream if fixed_stream is None else fixed_stream)
        self._keys = _prompt_keys(
            share, self._input_lengths, self._trace_row, self._copy, grow_sessions=asking.grow_sessions
        )
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

    def warmup(self, number: int) -> bytes:
        """The bytes of a request before the start: of some row's lengths, with a prompt that no row has."""
        again, index = divmod(number, self._num_requests)
        row = self._trace_row[index]
        return self._payload(index, -2 * ((row << 16) + again) - 2, (), f"warmup-{row}-{again}")

    def _build_one(self) -> None:
        index = self._next_built
        name = f"{self._trace_row[index]}-{self._copy[index]}"
        payload = self._payload(index, self._keys[index], self._blocks[index].as_py() or (), name)
        self._ready.append(payload)
        self._ready_bytes += len(payload)
        self._next_built = index + 1

    def _payload(self, index: int, prompt_key: int, blocks: Sequence[int], name: str) -> bytes:
        ask = Ask(
            model=self._asking.model,
            prompt=self._prompts.text(prompt_key, self._input_lengths[index], blocks),
            output_tokens=self._output_tokens[index],
            stream=self._stream[index],
            force_length=self._asking.force_length,
        )
        body = self._dialect.body(ask)
        return b"%bX-Request-Id: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            self._heads[ask.stream],
            f"{self._asking.run_id}-{name}".encode(),
            len(body),
            body,
        )


def _prompt_keys(
    share: pa.Table,
    chars: Sequence[int],
    trace_row: Sequence[int],
    copy: Sequence[int],
    *,
    grow_sessions: bool,
) -> list[int]:
    """The key of each row's prompt: its own, or its session's while that grows from turn to turn.

    Texts of one key begin alike, so that a turn's prompt holds the one of the turn before, as a conversation's
    does. A turn that is no longer than the one before is none that goes on from it.
    """
    keys = [(row << 16) + number for row, number in zip(trace_row, copy, strict=True)]
    if not grow_sessions:
        return keys
    longest: dict[int, int] = {}
    sessions = share.column("session").to_pylist()
    for index, session in enumerate(sessions):
        if session is None:
            continue
        key = -2 * ((session << 16) + copy[index]) - 1
        if chars[index] > longest.get(key, 0):
            longest[key] = chars[index]
            keys[index] = key
    return keys


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
