"""Probes: what is sampled beside a run, by what was asked for."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from loadgen.replay.coordinator import Probe
from loadgen.telemetry.gpu import GpuProbe
from loadgen.telemetry.host import HostProbe
from loadgen.telemetry.nvml import Nvml
from loadgen.telemetry.samples import Samples
from loadgen.telemetry.server_metrics import MetricsTransport, ServerMetrics


class SamplingProbe(Probe, Protocol):
    """samples: what it has read so far."""

    samples: Samples


def probes_for(
    base_url: str,
    headers: tuple[tuple[str, str], ...],
    transport: MetricsTransport | None,
    *,
    more_metrics: Sequence[str] = (),
    reads_gpu: bool | None = None,
) -> list[SamplingProbe]:
    """The target's /metrics, further URLs of metrics (a DCGM exporter, another port), this host, its GPUs.

    headers and transport are for the target only: further URLs never see its key. reads_gpu: None reads the GPUs
    of this machine if the target runs on it, and says nothing where there are none.
    """
    probes: list[SamplingProbe] = [ServerMetrics(base_url, headers, transport=transport), HostProbe()]
    probes += [
        ServerMetrics(url, is_whole_url=True, source=f"metrics:{urlsplit(url).netloc}")
        for url in more_metrics
    ]
    if reads_gpu or (reads_gpu is None and is_this_machine(base_url)):
        mask = os.environ.get("CUDA_VISIBLE_DEVICES")
        probes.append(GpuProbe(Nvml(), mask, is_quiet=reads_gpu is None))
    return probes


def is_this_machine(url: str) -> bool:
    """Whether a URL names the loopback."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
