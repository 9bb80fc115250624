"""DCGM exporter: its series as readings of devices, by UUID."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loadgen.telemetry.prometheus import Sample
from loadgen.telemetry.samples import (
    GPU_ACTIVE,
    GPU_CLOCK,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_PREFIX,
    GPU_SM_ACTIVE,
)

PREFIX = "DCGM_FI_"
_MIB, _MHZ = float(1 << 20), 1e6
# Theirs: ours, and what one of theirs is in it. Frame buffer in MiB, clocks in MHz, utilisation in percent.
_READINGS = {
    "DCGM_FI_DEV_GPU_UTIL": (GPU_ACTIVE, 0.01),
    "DCGM_FI_PROF_SM_ACTIVE": (GPU_SM_ACTIVE, 1.0),
    "DCGM_FI_DEV_FB_USED": (GPU_MEMORY_USED, _MIB),
    "DCGM_FI_DEV_POWER_USAGE": (GPU_POWER, 1.0),
    "DCGM_FI_DEV_SM_CLOCK": (GPU_CLOCK, _MHZ),
}
_FREE, _RESERVED = "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"


def device_readings(series: Iterable[Sample]) -> Iterator[tuple[str, str, float]]:
    """(source, name, value) of each reading; a partition of a device is a source of its own.

    The total memory is used and free (and reserved) together, where both are told.
    """
    memory: dict[str, dict[str, float]] = {}
    for one in series:
        if not one.name.startswith(PREFIX):
            continue
        source = _source(one.labels)
        if one.name in _READINGS:
            name, factor = _READINGS[one.name]
            yield source, name, one.value * factor
        if one.name in (_FREE, _RESERVED, "DCGM_FI_DEV_FB_USED"):
            memory.setdefault(source, {})[one.name] = one.value
    for source, parts in memory.items():
        if _FREE in parts and "DCGM_FI_DEV_FB_USED" in parts:
            yield source, GPU_MEMORY_TOTAL, sum(parts.values()) * _MIB


def _source(labels: dict[str, str]) -> str:
    partition = labels.get("GPU_I_ID")
    name = labels.get("UUID") or labels.get("gpu") or "unknown"
    return f"{GPU_PREFIX}{name}" + (f"/{partition}" if partition else "")
