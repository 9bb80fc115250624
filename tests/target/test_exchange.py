"""What a request tells of itself: its stages, the header, and the metrics of its last chunk, from moments given."""

from __future__ import annotations

from loadgen_target.exchange import Exchange
from loadgen_target.request import Began, Emission, Ended, Status
from support.exchanges import MS, RECV, served


def test_the_header_has_preprocessing_from_receipt_then_the_queue_then_the_prompt() -> None:
    assert served().server_timing() == "pre;dur=7.000, queue;dur=13.000, prefill;dur=10.000"


def test_the_header_leaves_out_what_was_not_reached() -> None:
    exchange = Exchange(1, None, recv_ns=RECV, recv_unix_ns=9)
    exchange.pre_end_ns = RECV + 2 * MS
    assert exchange.server_timing() == "pre;dur=2.000"


def test_the_metrics_of_the_last_chunk_are_what_their_names_say() -> None:
    assert served().metrics("dynamic") == {
        "time_to_first_token_ms": 10.0,  # from the start of execution, as vLLM has it
        "generation_time_ms": 40.0,
        "queue_time_ms": 12.0,
        "mean_itl_ms": 10.0,
        "tokens_per_second": 100.0,
        "loadgen": {
            "v": 1,
            "recv_unix_ns": 9,
            "recv_mono_ns": RECV,
            "parsed_us": 1_000,
            "pre_start_us": 3_000,
            "pre_end_us": 7_000,
            "enqueued_us": 8_000,
            "exec_start_us": 20_000,
            "prefill_end_us": 30_000,
            "first_token_us": 30_000,
            "last_token_us": 70_000,
            "finished_us": 71_000,
            "policy": "dynamic",
            "batch_at_start": 3,
            "mean_batch": 2.5,
            "steps": 5,
        },
    }


def test_of_one_token_there_is_no_time_between_tokens() -> None:
    exchange = Exchange(1, None, recv_ns=RECV, recv_unix_ns=9)
    began = Began(None, None, RECV, RECV + MS, RECV + 3 * MS, RECV + 3 * MS, 1)
    exchange.push(Emission(1, (65,), began, Ended(Status.OK, "length", 0, RECV + 3 * MS, 1, 1.0, 1)))
    metrics = exchange.metrics("serial")
    assert metrics["mean_itl_ms"] is None and metrics["generation_time_ms"] == 0.0


def test_the_queue_share_has_three_parts_that_make_the_whole() -> None:
    exchange = served()
    parts = [("recv", "exec_start"), ("exec_start", "last_token"), ("last_token", "finished")]
    spans_s = [exchange.span_s(*part) for part in parts]
    whole_s = exchange.span_s("recv", "finished")
    assert whole_s is not None and None not in spans_s
    assert abs(sum(span for span in spans_s if span is not None) - whole_s) < 1e-9
