"""Chunks that pass the parser by: however the bytes are cut, the record is that of the parser."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.replay.connection import Connection
from loadgen.replay.dialects import dialect_named
from loadgen.replay.exchange import Exchange
from loadgen.testing import Send as SendStep
from loadgen.testing import chat_stream

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Wire:
    """A transport that keeps nothing. is_closed: the connection gave it up."""

    def __init__(self) -> None:
        self.is_closed = False

    def write(self, data: bytes) -> None:
        """Nobody reads it."""

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


def told_by(reads: list[bytes]) -> tuple[Any, ...]:
    """What comes of an answer that is read in these pieces: facts that do not hang on when each was read."""
    ended: list[Exchange] = []
    idle: list[Connection] = []
    moments = iter(range(1, 10**6))
    connection = Connection(lambda: next(moments), ended.append, idle.append, lambda _: None, lambda *_: None)
    wire = Wire()
    connection.connection_made(wire)  # type: ignore[arg-type]
    exchange = Exchange(0, 0, dialect_named("chat"), stream=True)
    exchange.dispatched_ns = 0
    connection.send(exchange, b"GET")
    for read in reads:
        if not wire.is_closed and connection.exchange is not None:
            connection.data_received(read)
    connection.connection_lost(None)
    assert ended == [exchange]
    return (
        exchange.outcome,
        len(exchange.token_ns),
        exchange.finish_reason,
        exchange.output_tokens,
        exchange.first_answer_token_ns is None,
        len(idle),
    )


def chunk(data: bytes, form: bytes = b"%x") -> bytes:
    return (form % len(data)) + b"\r\n" + data + b"\r\n"


def event(text: str) -> bytes:
    return (
        b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n' % text.encode()
    )


DONE = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
LAST = b"0\r\n\r\n"

PIECES = st.sampled_from(
    [
        *(chunk(event(text)) for text in ("a", "b", "some words", "")),
        chunk(event("upper") * 3, b"%X"),
        chunk(event("a") + event("b")),
        chunk(event("cut")[:20]) + chunk(event("cut")[20:]),
        chunk(event("zeros"), b"000%x"),
        chunk(event("a"), b"%x;name=value"),
        chunk(b": ping\n\n"),
        chunk(DONE),
        b"5\r\nab",  # what is no chunk, or none yet
        b"0x5\r\nabcde\r\n",
        b" 5\r\nabcde\r\n",
        b"5\r\nabcdefg\r\n",
        b"-1\r\n",
        b"\r\n",
        LAST,
    ]
)


@given(st.lists(PIECES, max_size=12), st.data())
def test_bytes_cut_at_random_make_the_record_of_a_byte_at_a_time(
    pieces: list[bytes], data: st.DataObject
) -> None:
    body = b"".join(pieces) + LAST
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=8)))
    reads = [
        body[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(body)], strict=True) if begin < end
    ]
    # One byte at a time, no chunk ever lies whole in a read: the parser sees them all.
    by_parser = told_by([HEAD, *(body[at : at + 1] for at in range(len(body)))])
    assert told_by([HEAD, *reads]) == by_parser
    assert told_by([HEAD, *(piece for piece in [*pieces, LAST] if piece)]) == by_parser


@pytest.mark.parametrize("size", [1, 9, 200, 8191, 8192, 70_000])
def test_chunks_of_any_size_are_read(size: int) -> None:
    padded = event("x" * max(1, size - len(event(""))))
    outcome, num_tokens, *_ = told_by(
        [HEAD, chunk(event("a")), chunk(padded), chunk(padded), chunk(DONE), LAST]
    )
    assert (outcome, num_tokens) == ("ok", 3)


def test_a_scripted_stream_is_read_whole() -> None:
    reads = [step.data for step in chat_stream(5) if isinstance(step, SendStep)]
    outcome, num_tokens, *_, num_idle = told_by(reads)
    assert (outcome, num_tokens, num_idle) == ("ok", 5, 1)
