"""Runs with a planted cause: arrivals by chance, served by a small model of a server that has this one fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from loadgen.telemetry.samples import GPU_ACTIVE, GPU_SM_ACTIVE, HOST_CPU, Samples
from support.runs import Row, failed, ok

LENGTH_S = 20.0
_MS = 1000


@dataclass
class Planted:
    """What a run folder is made of. limits: as --slo; facts: of run.json."""

    rows: list[Row]
    telemetry: Samples = field(default_factory=Samples)
    facts: dict[str, Any] = field(default_factory=dict)
    limits: tuple[str, ...] = ()


def arrivals(rng: np.random.Generator, rate: float = 10.0) -> list[float]:
    """Poisson, over the run."""
    moments = np.cumsum(rng.exponential(1 / rate, int(LENGTH_S * rate * 2)))
    return [float(moment) for moment in moments[moments < LENGTH_S - 1.5]]


def row(
    at_s: float,
    *,
    pre_wait_s: float = 0.0,
    wait_s: float = 0.002,
    first_s: float = 0.02,
    tokens: int = 10,
    step_s: float = 0.01,
    hold_s: float = 0.0,
    network_s: float = 0.0005,
    batch: float = 2.0,
    **more: Any,
) -> Row:
    """An answer by the time that each part of it took."""
    spans = (0.0002, pre_wait_s, 0.001, 0.0002, wait_s, first_s, 0.0, (tokens - 1) * step_s, hold_s)
    moments = [round(float(moment) * 1e6) for moment in np.cumsum(spans)]
    names = ("parsed", "pre_start", "pre_end", "enqueued", "exec_start", "prefill_end", "first_token", "last_token",
             "finished")  # fmt: skip
    stages = {f"server_{name}_us": moment for name, moment in zip(names, moments, strict=True)}
    return ok(
        at_s,
        sent_s=more.pop("sent_s", at_s) + 0.0001,
        first_s=at_s + moments[6] / 1e6 + network_s,
        last_s=at_s + moments[-1] / 1e6 + network_s,
        tokens=tokens,
        **(stages | {"server_mean_batch": batch} | more),
    )


def without_stages(found: Row) -> Row:
    return {key: value for key, value in found.items() if not key.startswith("server_")}


def waits_behind(moments: list[float], service_s: float, servers: int) -> npt.NDArray[np.float64]:
    """How long each waits for one of so many servers, first come, first served."""
    free = np.zeros(servers)
    waits = []
    for at in moments:
        place = int(free.argmin())
        start = max(at, float(free[place]))
        free[place] = start + service_s
        waits.append(start - at)
    return np.asarray(waits)


def gauges(samples: Samples, source: str, **values: float) -> None:
    for step in range(int(LENGTH_S * 2)):
        for name, value in values.items():
            samples.add(step * 500_000_000, source, name, value)


def counters(samples: Samples, **per_second: float) -> None:
    """Counters of a server that grow evenly; `__` stands for the colon of their names."""
    for step in range(int(LENGTH_S * 2)):
        for name, rate in per_second.items():
            samples.add(step * 500_000_000, "server", name.replace("__", ":"), rate * step / 2)


def target(policy: str = "dynamic", **flags: Any) -> dict[str, Any]:
    """Facts of the bundled server with these flags, on a CPU."""
    told = {"device": "cpu", "policy": policy, "flags": {"max_batch_size": 8, "pipeline": "staged", **flags}}
    return {"target": {"url": "http://127.0.0.1:8000", "model": "m", "dialect": "chat", "facts": told}}


def steps(active: float, kernels: float) -> Samples:
    """The bundled server's counters: steps ran for, and computed for, these shares of the time."""
    samples = Samples()
    counters(
        samples, loadgen_target__step_busy_seconds_total=active, loadgen_target__kernel_seconds_total=kernels
    )
    gauges(samples, "host", **{HOST_CPU: 0.5})
    return samples


def healthy(rng: np.random.Generator) -> Planted:
    # Answers of very different lengths: their tail is their own.
    lengths = rng.lognormal(2.3, 0.9, 1000).clip(2, 400).astype(int)
    rows = [row(at, tokens=int(lengths[k])) for k, at in enumerate(arrivals(rng))]
    return Planted(rows, steps(0.4, 0.38), target())


def compute_bound(rng: np.random.Generator) -> Planted:
    rows = [row(at, first_s=0.2, step_s=0.05 * rng.uniform(0.9, 1.1)) for at in arrivals(rng, 5)]
    return Planted(rows, steps(0.9, 0.88), target(), ("latency p99 < 300ms",))


def conservative(rng: np.random.Generator) -> Planted:
    rows = [row(at, wait_s=0.15 * rng.uniform(0.5, 1), step_s=0.003, batch=1.5) for at in arrivals(rng)]
    return Planted(rows, steps(0.3, 0.28), target())


def saturated(rng: np.random.Generator) -> Planted:
    moments = arrivals(rng, 12)
    waits = waits_behind(moments, 0.9, 8)
    rows = [
        row(at, wait_s=float(wait), step_s=0.1, batch=7.6) for at, wait in zip(moments, waits, strict=True)
    ]
    return Planted(rows, steps(0.98, 0.95), target())


def head_of_line(rng: np.random.Generator) -> Planted:
    # Batches are held by one answer of 60 tokens among answers of 6.
    rows = [
        row(at, wait_s=0.1, tokens=60, batch=4) if k % 4 == 0
        else row(at, wait_s=rng.uniform(0.1, 0.4), tokens=6, hold_s=0.54, batch=4)
        for k, at in enumerate(arrivals(rng))
    ]  # fmt: skip
    return Planted(rows, steps(0.7, 0.66), target())


def preprocessing_bound(rng: np.random.Generator) -> Planted:
    moments = arrivals(rng, 12)
    waits = waits_behind(moments, 0.1, 1)
    rows = [row(at, pre_wait_s=float(wait), step_s=0.004) for at, wait in zip(moments, waits, strict=True)]
    return Planted(rows, steps(0.3, 0.28), target())


def memory_bound(rng: np.random.Generator) -> Planted:
    # A server without stages: its counters and gauges tell. Two of eight places are all that the cache holds.
    moments = arrivals(rng, 12)
    waits = waits_behind(moments, 0.25, 2)
    rows = [
        without_stages(row(at, wait_s=float(wait), step_s=0.02))
        for at, wait in zip(moments, waits, strict=True)
    ]
    samples = Samples()
    counters(samples, vllm__request_queue_time_seconds_sum=8, vllm__e2e_request_latency_seconds_sum=10)
    gauges(samples, "server", **{"vllm:kv_cache_usage_perc": 0.96 + rng.uniform(0, 0.03)})
    gauges(samples, "gpu:GPU-aa", **{GPU_ACTIVE: 0.97, GPU_SM_ACTIVE: 0.8})
    return Planted(rows, samples)


def launch_bound(rng: np.random.Generator) -> Planted:
    rows = [row(at, step_s=0.02 * rng.uniform(0.9, 1.1)) for at in arrivals(rng)]
    samples = Samples()
    gauges(samples, "gpu:GPU-aa", **{GPU_ACTIVE: 0.95, GPU_SM_ACTIVE: 0.25 * rng.uniform(0.8, 1.2)})
    return Planted(rows, samples)


def rejecting(rng: np.random.Generator) -> Planted:
    rows = [
        failed(at, "rejected", end_s=at + 0.002, status_code=429) if rng.random() < 0.1 else row(at)
        for at in arrivals(rng)
    ]
    return Planted(rows, steps(0.5, 0.47), target(max_queue_size=2))


def generator_bound(rng: np.random.Generator) -> Planted:
    moments = arrivals(rng)
    rows = [
        row(at) | {"dispatched_ns": round((at + late) * 1e9), "sent_ns": round((at + late) * 1e9)}
        for at, late in zip(moments, rng.uniform(0.01, 0.05, len(moments)), strict=True)
    ]
    return Planted(rows, steps(0.4, 0.38), target())


def buffering(rng: np.random.Generator) -> Planted:
    # A proxy lets go of the whole answer at its end.
    rows = []
    for at in arrivals(rng, 5):
        made = row(at, tokens=40, step_s=0.02 * rng.uniform(0.9, 1.1))
        first_ns = made["last_token_ns"] - 2_000_000
        rows.append(made | {"first_token_ns": first_ns, "first_byte_ns": first_ns, "headers_ns": first_ns,
                            "num_coalesced": 38, "chunk_gap_us": [0] * 38 + [2 * _MS]})  # fmt: skip
    return Planted(rows, steps(0.4, 0.38), target())


def too_little(rng: np.random.Generator) -> Planted:
    return Planted([row(at) for at in arrivals(rng)[:10]], steps(0.4, 0.38), target())


CAUSES: dict[str, Callable[[np.random.Generator], Planted]] = {
    "healthy": healthy,
    "compute-bound": compute_bound,
    "batching too conservative": conservative,
    "saturated": saturated,
    "head of line": head_of_line,
    "preprocessing-bound": preprocessing_bound,
    "memory-bound": memory_bound,
    "launch-bound": launch_bound,
    "rejecting": rejecting,
    "generator-bound": generator_bound,
    "network or proxy buffering": buffering,
    "not enough evidence": too_little,
}
