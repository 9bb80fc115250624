"""What servers' own metrics give: queue shares by four names, devices by DCGM, resets, gaps and silence."""

from __future__ import annotations

import asyncio
import math

import httpx
import pytest

from loadgen.replay.clock import RunClock
from loadgen.report.figures import Missing
from loadgen.report.sampled import FIGURES, Sampled
from loadgen.telemetry.dcgm import device_readings
from loadgen.telemetry.host import HostProbe
from loadgen.telemetry.prometheus import parse_metrics, parse_series
from loadgen.telemetry.samples import GPU_ACTIVE, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, HOST_CPU, Samples
from loadgen.telemetry.server_metrics import ServerMetrics

# Texts after the names that each server documents: two readings, between them 30 of 40 s in queues.
VLLM = """# TYPE vllm:request_queue_time_seconds histogram
vllm:request_queue_time_seconds_bucket{{le="1",model_name="m"}} 3
vllm:request_queue_time_seconds_bucket{{le="+Inf",model_name="m"}} 4
vllm:request_queue_time_seconds_sum{{model_name="m"}} {queue}
vllm:request_queue_time_seconds_count{{model_name="m"}} 4
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{{le="+Inf",model_name="m"}} 4
vllm:e2e_request_latency_seconds_sum{{model_name="m"}} {total}
vllm:e2e_request_latency_seconds_count{{model_name="m"}} 4
# TYPE vllm:num_preemptions counter
vllm:num_preemptions_total{{model_name="m"}} 2
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{{engine="0",model_name="m"}} 0.7
vllm:kv_cache_usage_perc{{engine="1",model_name="m"}} 0.9
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="m"}} 3
vllm:num_requests_waiting{{engine="1",model_name="m"}} 4
"""
SGLANG = """# TYPE sglang:queue_time_seconds histogram
sglang:queue_time_seconds_bucket{{le="+Inf"}} 4
sglang:queue_time_seconds_sum {queue}
sglang:queue_time_seconds_count 4
# TYPE sglang:e2e_request_latency_seconds histogram
sglang:e2e_request_latency_seconds_bucket{{le="+Inf"}} 4
sglang:e2e_request_latency_seconds_sum {total}
sglang:e2e_request_latency_seconds_count 4
# TYPE sglang:token_usage gauge
sglang:token_usage 0.9
"""
TGI = """# TYPE tgi_request_queue_duration histogram
tgi_request_queue_duration_bucket{{le="+Inf"}} 4
tgi_request_queue_duration_sum {queue}
tgi_request_queue_duration_count 4
# TYPE tgi_request_duration histogram
tgi_request_duration_bucket{{le="+Inf"}} 4
tgi_request_duration_sum {total}
tgi_request_duration_count 4
# TYPE tgi_queue_size gauge
tgi_queue_size 7
"""
TRITON = """# TYPE nv_inference_queue_duration_us counter
nv_inference_queue_duration_us{{model="a",version="1"}} {queue}
nv_inference_queue_duration_us{{model="b",version="1"}} 0
# TYPE nv_inference_request_duration_us counter
nv_inference_request_duration_us{{model="a",version="1"}} {total}
nv_inference_request_duration_us{{model="b",version="1"}} 0
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{{model="a",version="1"}} 7
"""
SERVERS = {"vllm": VLLM, "sglang": SGLANG, "tgi": TGI, "triton": TRITON}
ALWAYS = [(0.0, 1e9)]


def read(*texts: str, every_s: float = 1.0) -> Sampled:
    """Readings of these texts, one each `every_s` from 0 on."""
    samples = Samples()
    for place, text in enumerate(texts):
        for one in parse_metrics(text):
            samples.add(round(place * every_s * 1e9), "server", one.name, one.value)
    return Sampled(samples.table())


@pytest.mark.parametrize("server", SERVERS)
def test_the_queue_share_is_the_growth_of_the_servers_own_counters(server: str) -> None:
    page = SERVERS[server]
    found = read(page.format(queue=100, total=200), page.format(queue=130, total=240))
    assert found.figures(ALWAYS)["server_queue_share"] == pytest.approx(0.75)
    assert found.warnings == []


@pytest.mark.parametrize("server", SERVERS)
def test_only_the_growth_within_a_window_counts(server: str) -> None:
    page = SERVERS[server]
    steps = [(0, 0), (10, 20), (15, 40), (45, 80)]
    found = read(*(page.format(queue=queue, total=total) for queue, total in steps))
    # Up to the readings at 1 s; at 2 s; at 3 s.
    assert found.figures([(0, 1.5)])["server_queue_share"] == pytest.approx(0.5)
    assert found.figures([(1.5, 2.5)])["server_queue_share"] == pytest.approx(0.25)
    assert found.figures([(0, 1.5), (2.5, 9)])["server_queue_share"] == pytest.approx(40 / 60)


def test_a_server_that_began_anew_is_said_and_its_growth_counts_from_nothing() -> None:
    steps = [(100, 200), (130, 240), (10, 40), (20, 60)]
    found = read(*(VLLM.format(queue=queue, total=total) for queue, total in steps))
    assert found.figures(ALWAYS)["server_queue_share"] == pytest.approx((30 + 10 + 10) / (40 + 40 + 20))
    (warning,) = found.warnings
    assert "began anew" in warning


def test_a_missing_series_or_a_single_reading_is_no_share() -> None:
    lacking = TGI.replace("tgi_request_queue_duration", "tgi_other")
    for found in (
        read(lacking.format(queue=1, total=2), lacking.format(queue=2, total=4)),
        read(VLLM.format(queue=1, total=2)),
    ):
        figure = found.figures(ALWAYS)["server_queue_share"]
        assert isinstance(figure, Missing)
        assert figure.reason == "the server's counters tell no time in queues"


def test_a_server_without_ends_between_readings_has_no_share() -> None:
    same = VLLM.format(queue=1, total=2)
    assert isinstance(read(same, same).figures(ALWAYS)["server_queue_share"], Missing)


def test_shares_of_engines_are_not_added_up_but_queues_are() -> None:
    found = {one.name: one.value for one in parse_metrics(VLLM.format(queue=1, total=2))}
    assert found["vllm:kv_cache_usage_perc"] == 0.9
    assert found["vllm:num_requests_waiting"] == 7
    figures = read(VLLM.format(queue=1, total=2), VLLM.format(queue=1, total=2)).figures(ALWAYS)
    assert figures["kv_cache_share"] == 0.9
    assert figures["preemptions"] == 0


def of(*readings: tuple[float, str, str, float]) -> Sampled:
    """Readings as (s, source, name, value)."""
    samples = Samples()
    for moment_s, source, name, value in readings:
        samples.add(round(moment_s * 1e9), source, name, value)
    return Sampled(samples.table())


def test_a_reading_belongs_to_the_window_that_begins_at_its_moment() -> None:
    found = of((1, "host", HOST_CPU, 0.1), (2, "host", HOST_CPU, 0.7), (3, "host", HOST_CPU, 0.9))
    assert found.figures([(1, 2)])["host_cpu_share"] == 0.1
    assert found.figures([(2, 3)])["host_cpu_share"] == 0.7
    assert isinstance(found.figures([(4, 5)])["host_cpu_share"], Missing)


STEPS = "loadgen_target:step_busy_seconds_total"


def test_a_rate_is_growth_over_the_time_between_the_readings_of_its_window() -> None:
    readings = [(0.0, 0.0), (1.0, 0.5), (3.0, 1.5), (4.0, 1.6)]
    found = of(*((moment_s, "server", STEPS, value) for moment_s, value in readings))
    assert found.figures([(0.5, 3.5)])["engine_active_share"] == pytest.approx(0.5)
    assert found.figures([(3.5, 9)])["engine_active_share"] == pytest.approx(0.1)
    assert found.figures(ALWAYS)["engine_active_share"] == pytest.approx(1.6 / 4)


def test_readings_count_in_order_of_time_and_those_without_a_value_not_at_all() -> None:
    readings = [(4.0, 1.6), (2.0, math.nan), (0.0, 0.0), (3.0, math.inf), (1.0, 0.5)]
    found = of(*((moment_s, "server", STEPS, value) for moment_s, value in readings))
    assert found.figures(ALWAYS)["engine_active_share"] == pytest.approx(1.6 / 4)
    assert found.warnings == []


def test_counters_of_several_sources_are_added_up() -> None:
    queue, whole = "vllm:request_queue_time_seconds_sum", "vllm:e2e_request_latency_seconds_sum"
    found = of(
        (0, "server", queue, 0), (0, "server", whole, 0), (0, "server", STEPS, 0),
        (1, "server", queue, 30), (1, "server", whole, 40), (1, "server", STEPS, 0.5),
        (0, "metrics:b", queue, 5), (0, "metrics:b", whole, 9), (0, "metrics:b", STEPS, 0),
        (1, "metrics:b", queue, 15), (1, "metrics:b", whole, 49), (1, "metrics:b", STEPS, 0.25),
    )  # fmt: skip
    assert found.figures(ALWAYS)["server_queue_share"] == pytest.approx((30 + 10) / (40 + 40))
    assert found.figures(ALWAYS)["engine_active_share"] == pytest.approx(0.5 + 0.25)


def test_of_the_cache_the_highest_reading_is_told() -> None:
    kv = [
        (float(place), "server", "sglang:token_usage", value) for place, value in enumerate((0.4, 0.9, 0.5))
    ]
    assert of(*kv).figures(ALWAYS)["kv_cache_share"] == 0.9


def test_each_device_weighs_the_same_however_often_it_was_read() -> None:
    often = [(float(place), "gpu:a", GPU_ACTIVE, 0.9) for place in range(3)]
    assert of(*often, (0.0, "gpu:b", GPU_ACTIVE, 0.1)).figures(ALWAYS)["gpu_active_share"] == pytest.approx(
        0.5
    )


def test_a_device_that_uses_no_memory_has_a_share_of_0_and_one_that_tells_none_has_no_share() -> None:
    idle = of((0, "gpu:a", GPU_MEMORY_USED, 0), (0, "gpu:a", GPU_MEMORY_TOTAL, 100))
    assert idle.figures(ALWAYS)["gpu_memory_share"] == 0
    untold = of((0, "gpu:a", GPU_MEMORY_USED, 0), (0, "gpu:a", GPU_MEMORY_TOTAL, 0))
    assert isinstance(untold.figures(ALWAYS)["gpu_memory_share"], Missing)


def test_a_run_without_samples_has_reasons_for_every_figure() -> None:
    figures = Sampled(None).figures(ALWAYS)
    assert set(figures) == set(FIGURES) == set(read(TGI.format(queue=1, total=2)).figures(ALWAYS))
    assert all(isinstance(figure, Missing) and figure.reason for figure in figures.values())


DCGM = """# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-aa",Hostname="h"} 98
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-bb",Hostname="h"} 0
# TYPE DCGM_FI_PROF_SM_ACTIVE gauge
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-aa",GPU_I_ID="1"} 0.25
# TYPE DCGM_FI_DEV_FB_USED gauge
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-aa"} 30
# TYPE DCGM_FI_DEV_FB_FREE gauge
DCGM_FI_DEV_FB_FREE{gpu="0",UUID="GPU-aa"} 60
# TYPE DCGM_FI_DEV_FB_RESERVED gauge
DCGM_FI_DEV_FB_RESERVED{gpu="0",UUID="GPU-aa"} 10
# TYPE DCGM_FI_DEV_POWER_USAGE gauge
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-aa"} 312.5
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-aa"} 1980
"""


def test_a_dcgm_exporter_tells_each_device_by_its_uuid() -> None:
    found = {(source, name): value for source, name, value in device_readings(parse_series(DCGM))}
    assert found == {
        ("gpu:GPU-aa", "gpu_active_share"): pytest.approx(0.98),
        ("gpu:GPU-bb", "gpu_active_share"): 0,
        ("gpu:GPU-aa/1", "gpu_sm_active_share"): 0.25,
        ("gpu:GPU-aa", "gpu_memory_used_bytes"): 30 * 1024 * 1024,
        ("gpu:GPU-aa", "gpu_memory_total_bytes"): 100 * 1024 * 1024,
        ("gpu:GPU-aa", "gpu_power_w"): 312.5,
        ("gpu:GPU-aa", "gpu_sm_clock_hz"): 1.98e9,
    }


def scraped(url: str, *texts: str) -> tuple[ServerMetrics, list[httpx.Request]]:
    """What is told by an endpoint that answers these texts in turn, and what it was asked."""
    asked: list[httpx.Request] = []

    async def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if len(asked) > len(texts):
            await asyncio.Event().wait()
        return httpx.Response(200, text=texts[len(asked) - 1])

    async def sample() -> ServerMetrics:
        probe = ServerMetrics(
            url, every_s=0, transport=httpx.MockTransport(answer), is_whole_url=True, source="metrics:there"
        )
        task = asyncio.create_task(probe.sample_forever(RunClock(0)))
        while len(asked) <= len(texts):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return probe

    return asyncio.run(sample()), asked


@pytest.mark.parametrize("server", SERVERS)
def test_the_queue_share_of_each_server_comes_from_what_is_scraped(server: str) -> None:
    page = SERVERS[server]
    probe, _ = scraped(
        "http://x/metrics", page.format(queue=100, total=200), page.format(queue=130, total=240)
    )
    assert {row["source"] for row in probe.table().to_pylist()} == {"metrics:there"}
    assert probe.warnings == []
    found = Sampled(probe.table())
    assert found.figures(ALWAYS)["server_queue_share"] == pytest.approx(0.75)


def test_an_endpoint_that_does_not_answer_is_not_waited_for_long() -> None:
    _, asked = scraped("http://x/metrics", TGI.format(queue=1, total=2))
    assert set(asked[0].extensions["timeout"].values()) == {2.0}


def test_a_dcgm_exporter_is_scraped_like_a_server() -> None:
    probe, asked = scraped("http://exporter:9400/metrics", DCGM, DCGM)
    assert str(asked[0].url) == "http://exporter:9400/metrics"
    assert Sampled(probe.table()).figures(ALWAYS)["gpu_active_share"] == pytest.approx(0.49)
    assert Sampled(probe.table()).figures(ALWAYS)["gpu_memory_share"] == pytest.approx(0.3)
    assert probe.warnings == []


def test_the_host_is_read() -> None:
    async def sample() -> HostProbe:
        probe = HostProbe(every_s=0.001)
        task = asyncio.create_task(probe.sample_forever(RunClock(0)))
        while not probe.table().num_rows:
            await asyncio.sleep(0.002)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return probe

    rows = asyncio.run(sample()).table().to_pylist()
    shares = [row["value"] for row in rows if row["name"] == HOST_CPU]
    assert shares and all(0 <= share <= 1 for share in shares)
