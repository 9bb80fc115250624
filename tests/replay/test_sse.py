"""Server-sent events come out the same however the bytes were cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.replay.sse import SseScanner

STREAM = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"lo"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"!"}}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}\n\n'
    b"data: [DONE]\n\n"
)


def scan(*reads: bytes) -> list[tuple[bytes, bytes]]:
    scanner = SseScanner()
    return [event for read in reads for event in scanner.feed(read)]


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_unicode_line_separators_do_not_end_a_line(separator: str) -> None:
    # F01: only LF, CR and CRLF end a line.
    text = f"Hello{separator}World".encode()
    assert scan(b"data: " + text + b"\n\n", b"data: [DONE]\n\n") == [(b"", text), (b"", b"[DONE]")]


@pytest.mark.parametrize("cut", range(len(STREAM) + 1))
def test_a_cut_at_any_byte_changes_nothing(cut: int) -> None:
    # F02: an event that straddles two reads is not lost.
    assert scan(STREAM[:cut], STREAM[cut:]) == scan(STREAM)


def test_one_byte_at_a_time_changes_nothing() -> None:
    # F02
    assert scan(*(STREAM[i : i + 1] for i in range(len(STREAM)))) == scan(STREAM)
    assert len(scan(STREAM)) == 5


def test_an_event_comes_with_the_read_that_completed_it() -> None:
    # F02: its arrival is that of the completing read, not of the first part.
    scanner = SseScanner()
    assert scanner.feed(b"data: a\n") == []
    assert scanner.feed(b"\ndata: b") == [(b"", b"a")]
    assert scanner.feed(b"\n\n") == [(b"", b"b")]


@pytest.mark.parametrize(
    ("reads", "events"),
    [
        ((b": ping\n\n", b"data: a\n\n", b": ping\n\n"), [b"a"]),  # comments are no events
        ((b":\n:\n\n",), []),
        ((b"data: a\r\n\r\n",), [b"a"]),
        ((b"data: a\r", b"\n\r", b"\ndata: b\r\n\r\n"), [b"a", b"b"]),  # a read border between CR and LF
        ((b"data: a\r", b"\ndata: b\r\n\r\n"), [b"a\nb"]),  # nor does it end an event between its lines
        ((b"data: a\r\rdata: b\r\r",), [b"a", b"b"]),  # CR alone
        ((b"data:{}\n\n",), [b"{}"]),  # no space after the colon
        ((b"data:  a\n\n",), [b" a"]),  # only one space belongs to the format
        ((b'data: {"a":\ndata: 1}\n\n',), [b'{"a":\n1}']),  # two data lines join with LF
        ((b"id: 7\nretry: 10\ndata: a\n\n",), [b"a"]),
        ((b"\xef\xbb\xbfdata: a\n\n",), [b"a"]),  # a byte order mark at the start
        ((b"\xef", b"\xbb\xbfdata: a\n\n"), [b"a"]),
        ((b"data: a\n\n", b"\xef\xbb\xbfdata: b\n\n"), [b"a"]),  # and nowhere else
        ((b"\ndata: a\n\n",), [b"a"]),  # a newline as the first byte
        ((b"data: a\n\n", b"\n", b"data: b\n\n"), [b"a", b"b"]),
        ((b"data\n\n",), [b""]),  # a field name alone is a field with an empty value
        ((b"data: a",), []),  # an unfinished event is none
        ((b"event: error\n\n",), []),  # an event without data is none
    ],
)
def test_the_framing_rules_are_followed_whole(reads: tuple[bytes, ...], events: list[bytes]) -> None:
    # F09
    assert [data for _, data in scan(*reads)] == events


def test_the_event_name_is_kept_for_its_event_only() -> None:
    assert scan(b"event: error\ndata: a\n\ndata: b\n\n") == [(b"error", b"a"), (b"", b"b")]


PIECES = st.sampled_from(
    [
        b"data: x",
        b"data:y",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b": ping",
        b"event: e",
        b"\xef\xbb\xbf",
        b" ",
        b"z",
    ]
)


@given(st.lists(PIECES, max_size=30).map(b"".join), st.data())
def test_random_bytes_cut_at_random_equal_the_whole(stream: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reads = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert scan(*reads) == scan(stream)


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_no_bytes_make_it_fail(reads: list[bytes]) -> None:
    assert scan(*reads) == scan(b"".join(reads))
