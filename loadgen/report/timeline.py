"""Timeline: what happened when, in equal bins over the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.percentiles import nearest_rank
from loadgen.plan.schedule import Window
from loadgen.report.figures import Floats
from loadgen.report.observations import Observations
from loadgen.telemetry.samples import (
    GPU_ACTIVE,
    GPU_CLOCK,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    HOST_CPU,
)

_MAX_BINS = 600
_STEPS_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
# Gauges of the server, by the names that vLLM, SGLang, TGI and Triton gave them, and readings of devices and host.
GAUGES = {
    "vllm:num_requests_waiting": "server_waiting",
    "vllm:num_requests_running": "server_running",
    "sglang:num_queue_reqs": "server_waiting",
    "sglang:num_running_reqs": "server_running",
    "tgi_queue_size": "server_waiting",
    "tgi_batch_current_size": "server_running",
    "nv_inference_pending_request_count": "server_waiting",
    "vllm:kv_cache_usage_perc": "kv_cache",
    "vllm:gpu_cache_usage_perc": "kv_cache",
    "sglang:token_usage": "kv_cache",
    GPU_ACTIVE: "gpu_active",
    GPU_SM_ACTIVE: "gpu_sm_active",
    GPU_MEMORY_USED: "gpu_memory_bytes",
    GPU_POWER: "gpu_power_w",
    GPU_CLOCK: "gpu_clock_hz",
    HOST_CPU: "host_cpu",
}
# Counters of the bundled server, whose growth a second is a share of the time.
COUNTERS = {
    "loadgen_target:step_busy_seconds_total": "engine_active",
    "loadgen_target:kernel_seconds_total": "engine_kernel",
}
# A reading is the state until the next one, but not for ever.
_HOLDS_S = 1.0
_QUEUE_MOMENTS = ("parsed", "pre_start", "enqueued", "exec_start", "finished")

Series = list[float | None]


@dataclass(frozen=True, slots=True)
class Timeline:
    """Each series has one value a bin; None where nothing was observed in it.

    bin_s: seconds of a bin. labels: the window of each bin, an injection before others.
    series: offered, sent, served, failed (requests a second); tokens (a second, by arrival); in_flight (mean
    over the bin); latency_p50, latency_p99, ttft_p50 (s, by planned moment); queue_share and batch (mean rows), of
    the answers planned in it whose server tells stages; server_waiting, server_running,
    kv_cache (share) and readings of devices and host, means over the bin and over devices, which hold for 1 s until
    the next; engine_active, engine_kernel (shares of the time that the server was in steps, and computing in them).
    """

    bin_s: float
    labels: tuple[str, ...]
    series: dict[str, Series]


def timeline(
    seen: Observations,
    windows: Sequence[Window],
    run_end_s: float,
    telemetry: pa.Table | None,
    planned_s: Floats | None = None,
) -> Timeline:
    """Bins from 0 to the last thing that happened, at most 600, of a round length of 1 s or more for long runs."""
    end_s = max(windows[-1].end_ns / 1e9 if run_end_s == np.inf else run_end_s, 1e-3)
    bin_s = bin_length_s(end_s)
    count = int(np.ceil(end_s / bin_s))
    edges = np.arange(count + 1, dtype=np.float64) * np.float64(bin_s)
    sent, end = seen.sent_s, seen.seconds("end_ns")
    failed = seen.is_decided & ~seen.is_ok
    series: dict[str, Series] = {
        "offered": _rates(seen.planned_s if planned_s is None else planned_s, edges),
        "sent": _rates(sent, edges),
        "served": _rates(end[seen.is_ok], edges),
        "failed": _rates(end[failed], edges),
        "tokens": [float(arrived / bin_s) for arrived in seen.tokens_between(edges)],
        "in_flight": _in_flight(sent, end, edges),
    }
    places = np.clip((seen.planned_s / bin_s).astype(np.int64), 0, count - 1)
    for name, metric, percent in (
        ("latency_p50", "latency", 50),
        ("latency_p99", "latency", 99),
        ("ttft_p50", "ttft", 50),
    ):
        series[name] = binned_percentile(places, seen.per_request[metric], percent, count)
    series |= _of_stages(seen, places, count)
    if telemetry is not None:
        series |= _gauges(telemetry, edges)
    return Timeline(bin_s, tuple(_label(windows, edges[i], edges[i + 1]) for i in range(count)), series)


def bin_length_s(end_s: float) -> float:
    """Of a time line to `end_s`: a round length, 1 s or more for long runs, that makes at most 600 bins."""
    steps = _STEPS_S[3 if end_s > 30 else 0 :]
    return next((step for step in steps if end_s / step <= _MAX_BINS), end_s / _MAX_BINS)


def _of_stages(seen: Observations, places: npt.NDArray[np.int64], count: int) -> dict[str, Series]:
    """Queue share and mean batch of the answers planned in each bin; nothing where no server told its stages."""
    known = seen.has_stages
    series: dict[str, Series] = {}
    if known.any():
        spans = {name: seen.seconds(f"server_{name}_us")[known] for name in _QUEUE_MOMENTS}
        waits = spans["pre_start"] - spans["parsed"] + spans["exec_start"] - spans["enqueued"]
        waited = np.bincount(places[known], waits, count)
        whole = np.bincount(places[known], spans["finished"], count)
        series["queue_share"] = [
            float(part / total) if total > 0 else None for part, total in zip(waited, whole, strict=True)
        ]
    batches = seen.numbers("server_mean_batch")
    told = ~np.isnan(batches)
    if told.any():
        sums = np.bincount(places[told], batches[told], count)
        counts = np.bincount(places[told], minlength=count)
        series["batch"] = [float(s / c) if c else None for s, c in zip(sums, counts, strict=True)]
    return series


def _rates(moments: Floats, edges: Floats) -> Series:
    counts, _ = np.histogram(moments[~np.isnan(moments)], edges)
    return [float(value) for value in counts / (edges[1] - edges[0])]


def _in_flight(sent: Floats, end: Floats, edges: Floats) -> Series:
    """Mean number in flight over each bin: total time in flight within it over its length."""
    known = ~np.isnan(sent)
    starts = sent[known]
    ends = np.where(np.isnan(end[known]), edges[-1], end[known])
    # Time spent in flight before t, summed over requests: what has passed since each start less since each end.
    before = _passed_since(starts, edges) - _passed_since(ends, edges)
    return [float(value) for value in np.diff(before) / (edges[1] - edges[0])]


def _passed_since(moments: Floats, edges: Floats) -> Floats:
    """Sum over the moments before each edge of the time from them to it."""
    ordered = np.sort(moments)
    sums = np.concatenate([np.zeros(1), np.cumsum(ordered)])
    counts = np.searchsorted(ordered, edges, side="right")
    return np.asarray(counts * edges - sums[counts], dtype=np.float64)


def binned_percentile(places: npt.NDArray[np.int64], values: Floats, percent: float, count: int) -> Series:
    """Nearest rank in each of `count` bins of the values that are not NaN; places: the bin of each value."""
    known = ~np.isnan(values)
    places, values = places[known], values[known]
    order = np.argsort(places, kind="stable")
    bounds = np.searchsorted(places[order], np.arange(count + 1))
    ordered = values[order]
    return [
        nearest_rank(ordered[bounds[i] : bounds[i + 1]], [percent])[0] if bounds[i + 1] > bounds[i] else None
        for i in range(count)
    ]


def _gauges(telemetry: pa.Table, edges: Floats) -> dict[str, Series]:
    names = np.asarray(telemetry.column("name").cast(pa.string()).to_pylist(), dtype=object)
    moments = np.asarray(telemetry.column("t_ns").to_numpy(), dtype=np.float64) / 1e9
    values = np.asarray(telemetry.column("value").to_numpy(), dtype=np.float64)
    series: dict[str, Series] = {}
    for source, name in GAUGES.items():
        # A gauge may be NaN, which is "no value" in that format.
        mask = np.asarray(names == source, dtype=bool) & np.isfinite(values)
        if mask.any():
            counts, _ = np.histogram(moments[mask], edges)
            sums, _ = np.histogram(moments[mask], edges, weights=values[mask])
            means = [float(s / c) if c else None for s, c in zip(sums, counts, strict=True)]
            series[name] = _held(means, float(edges[1] - edges[0]))
    for source, name in COUNTERS.items():
        mask = np.asarray(names == source, dtype=bool) & np.isfinite(values)
        if mask.sum() > 1:
            series[name] = _growth(moments[mask], values[mask], edges)
    return series


def _held(means: Series, bin_s: float) -> Series:
    """A reading holds until the next one, for 1 s at most."""
    held: Series = []
    age = 0
    for mean in means:
        age = 0 if mean is not None else age + 1
        held.append(mean if mean is not None or not held or age * bin_s > _HOLDS_S else held[-1])
    return held


def _growth(moments: Floats, values: Floats, edges: Floats) -> Series:
    """Growth a second of a counter within each bin, evenly spread between its readings; None outside of them."""
    order = np.argsort(moments, kind="stable")
    moments, steps = moments[order], np.diff(values[order])
    # A counter that fell began anew at 0.
    grown = np.concatenate([[0.0], np.cumsum(np.where(steps < 0, values[order][1:], steps))])
    at_edges = np.interp(edges, moments, grown)
    inside = (edges[:-1] < moments[-1]) & (edges[1:] > moments[0])
    lengths = np.minimum(edges[1:], moments[-1]) - np.maximum(edges[:-1], moments[0])
    rates = np.diff(at_edges) / np.where(inside, lengths, 1.0)
    return [float(rate) if is_in else None for rate, is_in in zip(rates, inside, strict=True)]


def _label(windows: Sequence[Window], start_s: float, end_s: float) -> str:
    inside = [w.label for w in windows if w.start_ns / 1e9 < end_s and w.end_ns / 1e9 > start_s]
    injected = [label for label in inside if label.startswith(("peak", "burst"))]
    return (injected or inside or ["draining"])[0]
