"""What one answer's bytes and moments amount to: figures of a single request, by tables."""

from __future__ import annotations

import errno
import gzip
import json
from typing import Any

import pytest

from loadgen.replay.dialects import dialect_named
from loadgen.replay.exchange import Exchange
from loadgen.replay.request_record import Outcome

MS = 1_000_000
EVENT_STREAM = {b"content-type": b"text/event-stream"}
JSON = {b"content-type": b"application/json"}


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": None}]}


def finish(reason: str = "stop", **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}}


def sse(document: Any) -> bytes:
    return (
        b"data: "
        + (document.encode() if isinstance(document, str) else json.dumps(document).encode())
        + b"\n\n"
    )


def exchange(*, stream: bool = True) -> Exchange:
    made = Exchange(0, 0, dialect_named("chat"), stream=stream)
    made.dispatched_ns = made.sent_ns = 0
    return made


def streamed(*events: tuple[float, Any], complete: bool = True) -> Exchange:
    """A stream whose events (ms after the send, document or text or raw bytes) each came in a read of their own."""
    made = exchange()
    made.on_headers(200, EVENT_STREAM, 10 * MS)
    for at_ms, document in events:
        made.on_body(document if isinstance(document, bytes) else sse(document), round(at_ms * MS))
    if complete:
        made.on_complete(round(events[-1][0] * MS))
    return made


def ms(moment_ns: int | None) -> float | None:
    return None if moment_ns is None else moment_ns / MS


class TestTokens:
    def test_a_role_an_empty_text_and_a_ping_are_no_first_token(self) -> None:
        # F11
        made = streamed(
            (20, delta(role="assistant", content="")),
            (21, b": ping\n\n"),
            (30, delta(content="")),
            (800, delta(content="Hi")),
            (850, delta(content=" there")),
            (850.5, finish()),
            (851, usage(5, 2)),
            (852, "[DONE]"),
        )
        assert made.outcome is Outcome.OK
        assert [ms(moment) for moment in made.token_ns] == [800, 850]
        assert ms(made.headers_ns) == 10
        assert ms(made.first_byte_ns) == 20
        assert made.output_tokens == 2

    def test_an_answer_without_a_token_is_empty_and_has_no_first_token(self) -> None:
        # F12 A
        made = streamed((50, delta(role="assistant")), (60, finish()), (61, usage(5, 0)), (62, "[DONE]"))
        assert made.outcome is Outcome.EMPTY
        assert made.token_ns == []
        assert made.last_token_ns is None

    def test_one_token_is_first_and_last(self) -> None:
        # F12 B
        made = streamed((100, finish(content="a")), (101, "[DONE]"))
        assert made.outcome is Outcome.OK
        assert [ms(moment) for moment in made.token_ns] == [100]
        assert ms(made.last_token_ns) == 100

    def test_reasoning_is_the_first_token_and_the_answer_has_a_first_of_its_own(self) -> None:
        # F14
        reasoning = [(at, delta(reasoning_content="hm")) for at in (100, 200, 300, 400)]
        made = streamed(
            *reasoning,
            (500, delta(content="a")),
            (600, finish(content="b")),
            (601, usage(3, 6)),
            (602, "[DONE]"),
        )
        assert ms(made.token_ns[0]) == 100
        assert ms(made.first_answer_token_ns) == 500
        assert ms(made.last_token_ns) == 600
        assert made.output_tokens == 6

    def test_reasoning_alone_has_no_first_answer_token(self) -> None:
        # F14, variant
        made = streamed((100, delta(reasoning="hm")), (400, finish(reasoning="so")), (401, "[DONE]"))
        assert made.outcome is Outcome.OK
        assert made.first_answer_token_ns is None
        assert ms(made.last_token_ns) == 400

    def test_a_tool_call_counts_as_a_token(self) -> None:
        made = streamed((100, delta(tool_calls=[{"index": 0}])), (150, finish("tool_calls")), (151, "[DONE]"))
        assert made.outcome is Outcome.OK
        assert ms(made.first_answer_token_ns) == 100

    def test_the_end_is_the_last_token_not_usage_or_done(self) -> None:
        # F18
        made = streamed(
            (100, delta(content="a")),
            (150, delta(content="b")),
            (200, finish(content="c")),
            (260, usage(1, 3)),
            (300, "[DONE]"),
        )
        assert ms(made.last_token_ns) == 200
        assert ms(made.end_ns) == 300

    def test_events_of_one_read_are_counted_as_coalesced(self) -> None:
        together = b"".join(sse(delta(content="a")) for _ in range(65))
        made = streamed((100, together), (200, together), (300, finish()), (301, "[DONE]"))
        assert len(made.token_ns) == 130
        assert made.num_coalesced == 128


class TestUsage:
    @pytest.mark.parametrize("choices", [{"choices": []}, {}, {"choices": None}])
    def test_a_usage_event_without_choices_is_read_and_is_no_token(self, choices: dict[str, Any]) -> None:
        # F04
        counts = {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}
        made = streamed(
            (10, {**delta(role="assistant"), "usage": None}),
            (20, {**delta(content="a"), "usage": None}),
            (30, {**finish(content="b"), "usage": None}),
            (40, {**choices, **counts}),
            (41, "[DONE]"),
        )
        assert made.outcome is Outcome.OK
        assert (made.prompt_tokens, made.output_tokens) == (5, 2)
        assert ms(made.last_token_ns) == 30

    def test_running_totals_are_not_added_up(self) -> None:
        # F22
        events: list[tuple[float, Any]] = [
            (k, {**delta(content="x"), "usage": {"prompt_tokens": 6179, "completion_tokens": k}})
            for k in range(1, 223)
        ]
        made = streamed(*events, (223, finish()), (224, "[DONE]"))
        assert (made.prompt_tokens, made.output_tokens) == (6179, 222)


class TestErrorsInsideAStream:
    @pytest.mark.parametrize(
        ("events", "num_tokens", "message"),
        [
            ([(10, {"error": {"message": "engine died", "code": 500}}), (11, "[DONE]")], 0, "engine died"),
            (
                [(t, delta(content="a")) for t in (1, 2, 3)] + [(10, {"error": {"message": "engine died"}})],
                3,
                "engine died",
            ),
            ([(10, {"error": "out of memory"}), (11, "[DONE]")], 0, "out of memory"),
            ([(10, {**delta(content="a"), "error": "engine died"}), (11, "[DONE]")], 0, "engine died"),
            ([(10, b'event: error\ndata: {"message": "bad"}\n\n'), (11, "[DONE]")], 0, "bad"),
            ([(10, b"event: error\ndata: plain words\n\n")], 0, "plain words"),
            ([(10, {"object": "error", "message": "old form"}), (11, "[DONE]")], 0, "old form"),
        ],
    )
    def test_an_error_event_fails_the_request_and_keeps_its_message(
        self, events: list[tuple[float, Any]], num_tokens: int, message: str
    ) -> None:
        # F05
        made = streamed(*events)
        assert made.outcome is Outcome.STREAM_ERROR
        assert made.error == message
        assert len(made.token_ns) == num_tokens

    def test_an_error_that_was_told_is_not_hidden_by_a_later_timeout(self) -> None:
        made = streamed((10, {"error": "engine died"}), complete=False)
        made.stop(Outcome.TIMEOUT_GAP, 500 * MS)
        assert (made.outcome, made.error) == (Outcome.STREAM_ERROR, "engine died")

    def test_an_error_in_a_whole_answer_of_200_fails_it(self) -> None:
        made = exchange(stream=False)
        made.on_headers(200, JSON, 1)
        made.on_body(b'{"error": {"message": "no"}}', 2)
        made.on_complete(3)
        assert (made.outcome, made.error) == (Outcome.STREAM_ERROR, "no")


class TestCutStreams:
    FIVE = tuple((float(t), delta(content="a")) for t in (10, 20, 30, 40, 50))

    def test_a_clean_end_without_finish_reason_is_incomplete(self) -> None:
        # F07
        made = streamed(*self.FIVE)
        assert made.outcome is Outcome.INCOMPLETE_STREAM
        assert len(made.token_ns) == 5

    def test_a_close_without_the_last_chunk_is_incomplete(self) -> None:
        # F07, variant
        made = streamed(*self.FIVE, complete=False)
        made.on_lost(None, 60 * MS)
        assert made.outcome is Outcome.INCOMPLETE_STREAM

    def test_a_reset_in_mid_stream_is_a_reset(self) -> None:
        # F07, variant
        made = streamed(*self.FIVE, complete=False)
        made.on_lost(ConnectionResetError(errno.ECONNRESET, "reset by peer"), 60 * MS)
        assert made.outcome is Outcome.RESET
        assert ms(made.last_token_ns) == 50

    def test_a_finish_reason_with_a_clean_end_is_complete_without_done(self) -> None:
        made = streamed(*self.FIVE, (60, finish()))
        assert made.outcome is Outcome.OK

    def test_what_comes_after_done_changes_nothing(self) -> None:
        made = streamed(*self.FIVE, (60, "[DONE]"), complete=False)
        made.on_body(sse({"error": "late"}), 70 * MS)
        made.on_lost(ConnectionResetError(), 80 * MS)
        assert made.outcome is Outcome.OK
        assert ms(made.end_ns) == 60


class TestWholeAnswers:
    def test_a_whole_answer_has_a_last_token_but_no_first(self) -> None:
        made = exchange(stream=False)
        made.on_headers(200, JSON, 10 * MS)
        document = {
            "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 4, "completion_tokens": 2},
        }
        body = json.dumps(document).encode()
        made.on_body(body[:10], 90 * MS)
        made.on_body(body[10:], 100 * MS)
        made.on_complete(100 * MS)
        assert made.outcome is Outcome.OK
        assert made.token_ns == []
        assert ms(made.last_token_ns) == 100
        assert (made.prompt_tokens, made.output_tokens, made.finish_reason) == (4, 2, "stop")

    def test_a_server_that_ignores_stream_is_read_as_it_answers(self) -> None:
        made = exchange()
        made.on_headers(200, JSON, 1)
        made.on_body(b'{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}', 2)
        made.on_complete(3)
        assert made.outcome is Outcome.OK

    def test_an_empty_answer_is_empty(self) -> None:
        made = exchange(stream=False)
        made.on_headers(200, JSON, 1)
        made.on_body(b'{"choices":[{"message":{"content":""},"finish_reason":"stop"}]}', 2)
        made.on_complete(3)
        assert made.outcome is Outcome.EMPTY

    def test_what_is_no_json_is_no_answer(self) -> None:
        made = exchange(stream=False)
        made.on_headers(200, JSON, 1)
        made.on_body(b"<html>", 2)
        made.on_complete(3)
        assert made.outcome is Outcome.RESET


class TestStatus:
    @pytest.mark.parametrize(
        ("status", "outcome"),
        [
            (301, "http_error"),
            (401, "http_error"),
            (404, "http_error"),
            (500, "http_error"),
            (429, "rejected"),
            (503, "rejected"),
        ],
    )
    def test_a_refusal_keeps_its_status_and_message(self, status: int, outcome: str) -> None:
        made = exchange()
        made.on_headers(status, JSON | {b"retry-after": b"2"}, 1)
        made.on_body(b'{"error": {"message": "not now"}}', 2)
        made.on_complete(3)
        assert (made.outcome, made.status_code) == (outcome, status)
        assert made.error == f"HTTP {status}: not now"
        assert made.retry_after_s == (2.0 if outcome == "rejected" else None)

    def test_a_long_error_is_cut(self) -> None:
        made = exchange()
        made.on_headers(500, {}, 1)
        made.on_body(b"x" * 5000, 2)
        made.on_complete(3)
        assert made.error is not None
        assert len(made.error) <= 300

    @pytest.mark.parametrize(
        ("number", "outcome"),
        [
            (errno.ECONNREFUSED, Outcome.REFUSED),
            (errno.EHOSTUNREACH, Outcome.REFUSED),
            (errno.ETIMEDOUT, Outcome.TIMEOUT_CONNECT),
            (errno.EMFILE, Outcome.CLIENT_ERROR),
            (errno.EADDRNOTAVAIL, Outcome.CLIENT_ERROR),
        ],
    )
    def test_our_own_limits_are_not_blamed_on_the_target(self, number: int, outcome: Outcome) -> None:
        made = exchange()
        made.fail_connect(OSError(number, "words"), 5)
        assert made.outcome is outcome


def test_a_stream_in_gzip_is_read() -> None:
    made = exchange()
    made.on_headers(200, EVENT_STREAM | {b"content-encoding": b"gzip"}, 1)
    made.on_body(gzip.compress(sse(finish(content="a")) + sse("[DONE]")), 2)
    assert made.outcome is Outcome.OK


def test_an_event_cut_in_the_middle_of_a_character_is_whole_after_the_next_read() -> None:
    made = exchange()
    made.on_headers(200, EVENT_STREAM, 1)
    event = b'data: {"choices":[{"delta":{"content":"\xf0\x9f\x98\x80"},"finish_reason":"stop"}]}\n\n'
    cut = event.index(b"\x9f")
    made.on_body(event[:cut], 2)
    made.on_body(event[cut:], 3)
    made.on_complete(4)
    assert made.outcome is Outcome.OK
    assert made.token_ns == [3]


def test_stages_that_the_server_told_are_kept_whole_or_not_at_all() -> None:
    stages = {f"{name}_us": 5 for name in ("parsed", "pre_start", "pre_end", "enqueued", "exec_start")}
    stages |= {f"{name}_us": 9 for name in ("prefill_end", "first_token", "last_token", "finished")}
    whole = streamed(
        (1, finish(content="a")), (2, {"choices": [], "metrics": {"loadgen": stages}}), (3, "[DONE]")
    )
    assert whole.server_metrics == stages | {"recv_unix_ns": None, "mean_batch": None}
    cut = streamed((1, finish(content="a")), (2, {"metrics": {"loadgen": {"parsed_us": 5}}}), (3, "[DONE]"))
    assert cut.server_metrics is None


@pytest.mark.parametrize(
    "event",
    [
        {"choices": {"0": {}}},
        {"choices": ["text"]},
        {"choices": [{"delta": "text"}]},
        {
            "choices": [{"delta": {"content": "a"}}],
            "usage": {"completion_tokens": 10**12, "prompt_tokens": -5},
        },
        {
            "choices": [{"delta": {"content": "a"}}],
            "usage": [1],
            "metrics": {"loadgen": {"parsed_us": 10**30}},
        },
        {"choices": 7},
        [],
        None,
    ],
)
def test_no_answer_of_a_server_breaks_the_client(event: Any) -> None:
    made = streamed((1, json.dumps(event)), (2, finish(content="b")), (3, "[DONE]"))
    assert made.outcome in (Outcome.OK, Outcome.STREAM_ERROR)
    assert made.output_tokens is None
    assert made.prompt_tokens is None
    document = exchange(stream=False)
    document.on_headers(200, JSON, 1)
    document.on_body(json.dumps(event).encode(), 2)
    document.on_complete(3)
    assert document.outcome is not None
