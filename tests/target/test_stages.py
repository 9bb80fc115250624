"""Text to tokens and back, and what is held for a stop text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen_target.config import BOS, EOS
from loadgen_target.request import Sampling, Status, Work
from loadgen_target.rows import Row
from loadgen_target.stages import TextStream, Tokenizer


def row_for(*stops: bytes, max_tokens: int = 100, min_tokens: int = 0) -> Row:
    work = Work(1, (65,), Sampling(max_tokens=max_tokens, min_tokens=min_tokens, stops=stops))
    return Row(work, (65,), 0)


def spoken(pieces: list[str], *stops: bytes, min_tokens: int = 0) -> tuple[list[str], str | None]:
    """What goes out after each piece when a model says them a character at a time, and how it ended."""
    row = row_for(*stops, max_tokens=len("".join(pieces)), min_tokens=min_tokens)
    stream = TextStream(stops)
    sent: list[str] = []
    reason: str | None = None
    for piece in pieces:
        now = ""
        for token in piece.encode():
            reason = row.take(token, 1, 0)
            if reason:
                now += stream.finish((token,), row.matched_stop)
                return [*sent, now], reason
            now += stream.push((token,))
        sent.append(now)
    return sent, reason


def test_without_a_stop_each_token_goes_out_at_once() -> None:
    stream = TextStream(())
    assert [stream.push((ord(letter),)) for letter in "abc"] == ["a", "b", "c"]


def test_each_token_is_a_character_of_its_own() -> None:
    # F73: what UTF-8 spreads over four bytes is four characters here, and none is sent in parts.
    stream = TextStream(())
    pieces = [stream.push((byte,)) for byte in "\U0001f600".encode()]
    assert [len(piece) for piece in pieces] == [1, 1, 1, 1]
    assert "\ufffd" not in "".join(pieces)


def test_a_stop_text_over_two_pieces_is_seen_and_never_sent() -> None:
    # F74.
    assert spoken(["Hi\nUser", ":"], b"\nUser:") == (["Hi", ""], "stop")


def test_what_only_began_like_a_stop_text_is_sent_whole() -> None:
    sent, reason = spoken(["Hi\nUse", "d car"], b"\nUser:")
    assert "".join(sent) == "Hi\nUsed car"
    assert reason == "length"


def test_a_beginning_that_is_held_at_the_end_is_sent() -> None:
    assert spoken(["ab\nUs"], b"\nUser:") == (["ab\nUs"], "length")


def test_a_stop_text_at_the_very_start_leaves_nothing() -> None:
    assert spoken(["END"], b"END") == ([""], "stop")


def test_of_two_stop_texts_that_end_together_the_longer_is_cut() -> None:
    assert spoken(["a--xyz"], b"xyz", b"--xyz") == (["a"], "stop")


def test_of_two_stop_texts_where_one_begins_the_other_the_first_seen_ends_it() -> None:
    assert spoken(["a--xyz"], b"--", b"--xyz") == (["a"], "stop")


def test_a_stop_text_within_the_least_length_does_not_end_it() -> None:
    sent, reason = spoken(["aXbXc"], b"X", min_tokens=3)
    assert ("".join(sent), reason) == ("aXb", "stop")


@given(
    text=st.text("ab", min_size=1, max_size=30),
    stops=st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
)
def test_what_is_sent_is_the_text_up_to_its_first_stop(text: str, stops: list[str]) -> None:
    sent, reason = spoken([text], *(stop.encode() for stop in stops))
    ends = [text.find(stop) + len(stop) for stop in stops if stop in text]
    if ends:
        end = min(ends)
        longest = max(len(stop) for stop in stops if text[:end].endswith(stop))
        assert ("".join(sent), reason) == (text[: end - longest], "stop")
    else:
        assert ("".join(sent), reason) == (text, "length")


def test_the_end_token_is_counted_and_is_no_text() -> None:
    row, stream = row_for(), TextStream(())
    assert row.take(EOS, 1, 0) == "stop"
    assert stream.finish((EOS,), row.matched_stop) == ""
    assert row.ended(Status.OK, "stop").output_tokens == 1


@pytest.mark.parametrize(("text", "tokens"), [("ab", (97, 98)), ("\u00e9", (0xC3, 0xA9)), ("", (BOS,))])
def test_a_token_is_a_byte(text: str, tokens: tuple[int, ...]) -> None:
    assert Tokenizer().encode(text) == tokens


def test_a_heavier_tokenizer_uses_its_cpu_time() -> None:
    before_s = time.thread_time()
    Tokenizer(extra_s=0.02).encode("a")
    assert time.thread_time() - before_s >= 0.02
