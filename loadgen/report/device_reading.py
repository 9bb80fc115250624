"""DeviceReading: how busy the device looks, and how much of that is computing: always the two together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadgen.report.measures import Measures


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """Shares of the time. active: something ran. kernels: it computed; None where that is not told.

    is_cpu: the device is the server's cores, which other programs may take from it.
    """

    active: float
    kernels: float | None
    words: str
    is_cpu: bool = False


def device_reading(measures: Measures, facts: Mapping[str, Any] | None) -> DeviceReading | None:
    """From the server's own counters where it computes on a CPU, else from its GPUs; None where nothing is told."""
    engine, gpu = measures.value("engine_active_share"), measures.value("gpu_active_share")
    is_cpu = str((facts or {}).get("device") or "").startswith("cpu")
    if engine is not None and (is_cpu or gpu is None):
        # Beside an accelerator, CPU time of a step is what its launches cost, not what the device computed.
        kernels = measures.value("engine_kernel_share") if is_cpu else None
        told = "" if kernels is None else f" and computed for {kernels:.0%}"
        return DeviceReading(engine, kernels, f"steps ran for {engine:.0%} of the time{told}", is_cpu)
    if gpu is None:
        return None
    kernels = measures.value("gpu_sm_active_share")
    told = "" if kernels is None else f", but its multiprocessors had work for {kernels:.0%}"
    return DeviceReading(gpu, kernels, f"the GPU was active for {gpu:.0%} of the time{told}")
