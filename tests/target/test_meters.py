"""What /metrics adds up: rows, tokens, bytes, ends; and what it leaves out when nobody knows it."""

from __future__ import annotations

import pytest

from loadgen_target.exchange import Exchange
from loadgen_target.meters import Meters
from loadgen_target.openai import parse_request
from loadgen_target.request import Emission, Outcome, Status, StepRecord
from loadgen_target.worker import Facts
from support.exchanges import MS, served

KNOWN: Facts = {
    "kernel_time_reason": None,
    "weight_bytes": 1_000,
    "kv_token_bytes": 8,
    "read_bandwidth_bytes_per_s": 5_000,
}


def meters_of(facts: Facts = KNOWN) -> Meters:
    meters = Meters("m", num_slots=8, kv_capacity=400)
    meters.know_device(facts)
    return meters


def values_of(meters: Meters) -> dict[str, float]:
    text = meters.exposition(num_waiting=4, num_preprocess_waiting=3).decode()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line and not line.startswith("#")]
    return {series.replace('{model_name="m"}', ""): float(value) for series, value in lines}


def step(kind: str = "decode", kernel_ns: int | None = 2 * MS) -> Outcome:
    record = StepRecord(
        start_ns=0,
        end_ns=10 * MS,
        kind=kind,
        group=0,
        rows=8,
        useful_rows=5,
        new_tokens=20,
        kv_tokens=100,
        cpu_ns=4 * MS,
        num_waiting=2,
        num_running=8,
        active_ns=6 * MS,
        kernel_ns=kernel_ns,
        cpu_wait_ns=3 * MS,
    )
    return Outcome((), (Emission(1, (65, 66)), Emission(2, (67,))), record, 2, 8, 100)


def test_a_decode_step_adds_its_rows_tokens_times_and_bytes() -> None:
    meters = meters_of()
    for outcome in (step(), step()):
        meters.count_step(outcome)
    found = values_of(meters)
    wanted = {
        "loadgen_target:rows_total": 16,
        "loadgen_target:useful_rows_total": 10,
        "loadgen_target:step_busy_seconds_total": 0.02,
        "loadgen_target:active_seconds_total": 0.012,
        "loadgen_target:decode_seconds_total": 0.012,
        "loadgen_target:kernel_seconds_total": 0.004,
        "loadgen_target:cpu_wait_seconds_total": 0.006,
        "loadgen_target:decode_bytes_total": 2 * (1_000 + 100 * 8),
        "loadgen_target:read_bandwidth_bytes_per_second": 5_000,
        "loadgen_target:batch_size_sum": 16,
        "loadgen_target:num_preprocess_waiting": 3,
        "vllm:generation_tokens_total": 6,
        "vllm:iteration_tokens_total_sum": 40,
        "vllm:num_requests_running": 8,
        "vllm:num_requests_waiting": 4,
        "vllm:kv_cache_usage_perc": 0.25,
    }
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)


def test_a_pass_over_prompts_is_no_decode_step() -> None:
    meters = meters_of()
    meters.count_step(step("prefill"))
    found = values_of(meters)
    assert found["loadgen_target:rows_total"] == 8
    for name in ("decode_seconds_total", "decode_bytes_total", "batch_size_count"):
        assert found[f"loadgen_target:{name}"] == 0


def test_what_nobody_knows_has_no_series() -> None:
    meters = meters_of({"kernel_time_reason": "no profiler", "read_bandwidth_bytes_per_s": None})
    meters.count_step(step(kernel_ns=None))
    names = set(values_of(meters))
    assert not [name for name in names if "kernel" in name or "bandwidth" in name or "bytes" in name]


def test_only_what_ended_well_enters_the_latencies() -> None:
    meters = meters_of()
    late, good = served(), served()
    good.asked = parse_request("text", b'{"prompt": "Hello"}', max_model_len=99, default_seed=0)
    late.status, good.status = Status.TIMEOUT, Status.OK
    for exchange in (late, good):
        meters.count_end(exchange)
    found = values_of(meters)
    assert found["loadgen_target:timed_out_total"] == 1
    assert found["vllm:prompt_tokens_total"] == 5
    assert found['vllm:request_success_total{finished_reason="length",model_name="m"}'] == 1
    sums = {
        "vllm:time_to_first_token_seconds": 0.030,
        "vllm:e2e_request_latency_seconds": 0.071,
        "vllm:request_queue_time_seconds": 0.012,
        "vllm:request_prefill_time_seconds": 0.010,
        "vllm:request_inference_time_seconds": 0.050,
        "vllm:request_decode_time_seconds": 0.040,
        "vllm:request_time_per_output_token_seconds": 0.010,
        "loadgen_target:preprocess_seconds": 0.006,
    }
    assert {name: found[f"{name}_sum"] for name in sums} == pytest.approx(sums)
    assert all(found[f"{name}_count"] == 1 for name in sums)


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (Status.REJECTED, "rejected"),
        (Status.TIMEOUT, "timed_out"),
        (Status.CANCELLED, "cancelled"),
        (Status.INVALID, "invalid"),
        (Status.ERROR, "errors"),
    ],
)
def test_each_other_end_has_a_counter_of_its_own(status: Status, name: str) -> None:
    meters = meters_of()
    exchange = Exchange(1, None, 0, 0)
    exchange.status = status
    meters.count_end(exchange)
    found = values_of(meters)
    ends = {key: value for key, value in found.items() if key.endswith("_total") and value}
    assert ends == {f"loadgen_target:{name}_total": 1}


def test_a_new_engine_is_counted_and_runs_nothing_yet() -> None:
    meters = meters_of()
    meters.count_step(step())
    meters.count_restart()
    found = values_of(meters)
    assert found["loadgen_target:engine_restarts_total"] == 1
    assert found["vllm:num_requests_running"] == found["vllm:kv_cache_usage_perc"] == 0
