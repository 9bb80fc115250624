"""Heads and chunks that pass the parser by: however the bytes are cut, the record is that of the parser."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.replay.clock import RunClock
from loadgen.replay.connection import Connection
from loadgen.replay.connection_count import ConnectionCount
from loadgen.replay.dialects import dialect_named
from loadgen.replay.exchange import Exchange
from loadgen.replay.familiar import Familiar
from loadgen.replay.known_heads import KnownHeads
from loadgen.replay.request_record import Outcome
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


def told_by(
    reads: list[bytes], heads: KnownHeads | None = None, familiar: Familiar | None = None
) -> tuple[Any, ...]:
    """What comes of an answer that is read in these pieces: facts that do not hang on when each was read."""
    ended: list[Exchange] = []
    idle: list[Connection] = []
    connection = Connection(
        RunClock(0),
        ended.append,
        idle.append,
        lambda _: None,
        lambda *_: None,
        KnownHeads() if heads is None else heads,
        ConnectionCount(),
    )
    wire = Wire()
    connection.connection_made(wire)  # type: ignore[arg-type]
    exchange = Exchange(0, 0, dialect_named("chat"), stream=True, familiar=familiar)
    exchange.dispatched_ns = 0
    connection.send(exchange, b"GET")
    for read in reads:
        if not wire.is_closed and connection.exchange is not None:
            connection.data_received(read)
    connection.connection_lost(None)
    assert ended == [exchange]
    return (
        exchange.outcome,
        exchange.status_code,
        exchange.retry_after_s,
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
        b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n'
        % text.encode()
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
    heads, familiar = KnownHeads(), Familiar()
    for _ in range(2):  # the second time, the head and the events are known
        assert told_by([HEAD, *(piece for piece in [*pieces, LAST] if piece)], heads, familiar) == by_parser
        assert told_by([HEAD, *reads], heads, familiar) == by_parser
    assert heads.get(HEAD) is not None


@pytest.mark.parametrize("size", [1, 9, 200, 8191, 8192, 70_000])
def test_chunks_of_any_size_are_read(size: int) -> None:
    padded = event("x" * max(1, size - len(event(""))))
    outcome, _, _, num_tokens, *_ = told_by(
        [HEAD, chunk(event("a")), chunk(padded), chunk(padded), chunk(DONE), LAST]
    )
    assert (outcome, num_tokens) == ("ok", 3)


def test_a_scripted_stream_is_read_whole() -> None:
    reads = [step.data for step in chat_stream(5) if isinstance(step, SendStep)]
    outcome, _, _, num_tokens, *_, num_idle = told_by(reads)
    assert (outcome, num_tokens, num_idle) == ("ok", 5, 1)


WHOLE = [HEAD + chunk(event("a")), chunk(DONE) + LAST]


@pytest.mark.parametrize("head", [
    b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
    b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    b"HTTP/1.1 twohundred OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    HEAD.replace(b"\r\n\r\n", b"\r\nContent-Length: 9\r\n\r\n"),
    HEAD[:-1],
])  # fmt: skip
def test_a_head_that_no_chunks_follow_is_always_read(head: bytes) -> None:
    heads = KnownHeads()
    told = [told_by([head, LAST], heads) for _ in range(2)]
    assert told[0] == told[1]
    assert heads.get(head) is None


def test_a_known_head_says_all_that_it_said_when_it_was_read() -> None:
    busy = HEAD.replace(b"200 OK", b"429 No").replace(
        b"\r\n\r\n", b"\r\nRetry-After: 3\r\nConnection: close\r\n\r\n"
    )
    heads = KnownHeads()
    read = told_by([busy, chunk(b"{}"), LAST], heads)
    assert read[:3] == ("rejected", 429, 3.0)
    assert read[-1] == 0  # the server closes: no other request on this connection
    assert told_by([busy, chunk(b"{}"), LAST], heads) == read
    assert told_by(WHOLE, heads)[-1] == 1


@pytest.mark.parametrize("rest", [
    [b"zz\r\n"],
    [chunk(event("a")), b"3\r\ndata: more\r\n"],
    [LAST + b"HTTP/1.1"],
    [b"0\r\nContent-Encoding: gzip\r\n\r\n"],
    [chunk(event("a"))[:-1], b"\n" + LAST],
])  # fmt: skip
def test_what_follows_a_known_head_is_read_like_what_follows_a_new_one(rest: list[bytes]) -> None:
    heads = KnownHeads()
    new = told_by([HEAD, *rest], heads)
    assert heads.get(HEAD) is not None
    assert told_by([HEAD, *rest], heads) == new
    assert told_by(WHOLE, heads) == told_by(WHOLE)


def test_heads_that_never_come_again_are_not_hoarded() -> None:
    heads = KnownHeads()
    for number in range(1000):
        told_by([HEAD.replace(b"\r\n\r\n", b"\r\nX-Number: %d\r\n\r\n" % number), LAST], heads)
    assert len(heads) < 300


def told_one_byte_at_a_time(reads: list[bytes]) -> tuple[Any, ...]:
    body = b"".join(reads)
    return told_by([HEAD, *(body[at : at + 1] for at in range(len(body)))])


LEARNT = [chunk(event("a")), chunk(event("b")), chunk(event("c"))]
EMPTY = event("x").replace(b'"content":"x"', b'"content":"","y":""')
INNER = chunk(event("d"))


@pytest.mark.parametrize("reads", [
    [chunk(event("d")).replace(b"%x" % len(event("d")), b"%x" % (len(event("d")) + 1), 1)],
    [chunk(event("d").replace(b"content", b"kontent"))],
    [chunk(event("d").replace(b'"finish_reason":null', b'"finish_reason":"no"'))],
    [chunk(event("d").replace(b"null", b"true"))],
    [chunk(EMPTY)],
    [chunk(event("d") * 2)],
    [chunk(event("d"))[:-3], chunk(event("d"))[-3:]],
    [b"%x\r\n" % len(INNER), INNER, b"\r\n"],  # a chunk that holds what looks like one
    [chunk(b": ping\n"), chunk(event("d"))],  # between chunks, within an event
], ids=range(9))  # fmt: skip
def test_what_is_nearly_like_the_events_before_it_is_read(reads: list[bytes]) -> None:
    rest = [*LEARNT, *reads, chunk(event("e")), chunk(b"data: [DONE]\n\n"), LAST]
    assert told_by([HEAD, *rest]) == told_one_byte_at_a_time(rest)


class Carried:
    """A connection with an exchange on its way, and what it has told."""

    def __init__(self, heads: KnownHeads, num_before: int = 0) -> None:
        self.ended: list[Exchange] = []
        self.unanswered: list[Exchange] = []
        self.connection = Connection(
            RunClock(0),
            self.ended.append,
            lambda _: None,
            lambda _: None,
            lambda exchange, _: self.unanswered.append(exchange),
            heads,
            ConnectionCount(),
        )
        self.connection.connection_made(Wire())  # type: ignore[arg-type]
        for _ in range(num_before):
            self.begin()
            for read in WHOLE:
                self.connection.data_received(read)
        self.exchange = self.begin()

    def begin(self) -> Exchange:
        exchange = Exchange(0, 0, dialect_named("chat"), stream=True)
        exchange.dispatched_ns = 0
        self.connection.send(exchange, b"GET")
        return exchange


def test_what_comes_after_the_connection_was_given_up_is_not_counted() -> None:
    carried = Carried(KnownHeads())
    for read in (HEAD, *LEARNT):
        carried.connection.data_received(read)
    carried.exchange.stop(Outcome.UNFINISHED, 1)
    carried.connection.abort()
    carried.connection.data_received(chunk(event("d")))
    assert len(carried.exchange.token_ns) == 3


def test_the_moment_of_a_known_head_stays_when_the_parser_is_needed_later() -> None:
    heads = KnownHeads()
    Carried(heads, num_before=1)
    carried = Carried(heads)
    carried.connection.data_received(HEAD)
    headers_ns = carried.exchange.headers_ns
    carried.connection.data_received(chunk(event("a"))[:20])
    assert carried.exchange.headers_ns == headers_ns
    assert carried.exchange.first_byte_ns is not None


@pytest.mark.parametrize(("reads", "is_tried_again"), [([], True), ([b"HTTP/1.1 2"], False), ([HEAD], False)])
def test_only_a_kept_connection_that_gave_no_byte_is_tried_again(
    reads: list[bytes], is_tried_again: bool
) -> None:
    carried = Carried(KnownHeads(), num_before=1)
    for read in reads:
        carried.connection.data_received(read)
    carried.connection.connection_lost(None)
    assert (carried.unanswered == [carried.exchange]) == is_tried_again
    assert (carried.exchange.outcome is None) == is_tried_again
