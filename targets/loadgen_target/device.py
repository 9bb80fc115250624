"""What the device does: how long it is active in a pass, how long its kernels run, how fast it reads memory."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

_READ_BYTES = 256 * 1024 * 1024  # above any cache
_READS = 7
# Below this, weights stay in a CPU's cache, and memory bounds nothing.
_CACHED_BYTES = 64 * 1024 * 1024


class CudaMeter:
    """Two events around each pass, and kernel times from the profiler over some passes before the first request.

    active: from the event before a pass's first operation to the one behind its last, on the engine's stream. It
    holds the gaps between kernels, so it is the most that kernels can have taken; gaps between passes are no part.
    kernel: the sum of the kernels' own durations. Only the profiler knows them, so the share that they have of the
    active time is measured once for each kind and size of a pass (`calibrate`), and each pass is given that
    share of its active time: an estimate, and None for a kind that was not measured.
    """

    def __init__(self) -> None:
        self._before = _event()
        self._behind = _event()
        self._kind = ""
        self._shares: dict[str, float] = {}
        self.reason: str | None = "--profile-steps is 0"

    def begin(self, kind: str) -> None:
        """Before a pass. kind: what its share of kernel time is kept under."""
        self._kind = kind
        self._before.record()

    def end(self) -> None:
        """Behind a pass; its times are known once its tokens have come to the host."""
        self._behind.record()

    def last_pass(self) -> tuple[int, int | None]:
        self._behind.synchronize()
        active_ns = round(self._before.elapsed_time(self._behind) * 1e6)
        share = self._shares.get(self._kind)
        return active_ns, None if share is None else round(active_ns * share)

    def calibrate(self, kind: str, one_pass: Callable[[], object], count: int) -> None:
        """Learn the share of kernel time from `count` passes; where the profiler cannot, `reason` says why."""
        active_ns = 0
        try:
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
                for _ in range(count):
                    one_pass()
                    active_ns += self.last_pass()[0]
                torch.cuda.synchronize()
        except RuntimeError as error:
            self.reason = f"the profiler does not run: {' '.join(str(error).split())[:200]}"
            return
        kernels_us = sum(
            event.self_device_time_total
            for event in profile.key_averages()
            if event.device_type.name == "CUDA"
        )
        if not kernels_us or not active_ns:
            self.reason = "the profiler saw no kernel, as without permission for its counters"
            return
        self.reason = None
        self._shares[kind] = min(1.0, kernels_us * 1e3 / active_ns)


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch leaves it untyped


def read_bandwidth(device: torch.device, weight_bytes: int) -> tuple[float | None, str | None]:
    """Bytes a second that a pass can read: the best of some sums over 256 MiB. Else None, and the reason."""
    if device.type == "cpu" and weight_bytes < _CACHED_BYTES:
        return None, f"weights of {weight_bytes / 1e6:.1f} MB may stay in the cache, so memory is no limit"
    numbers = torch.ones(_READ_BYTES // 4, device=device)
    best_s = float("inf")
    for _ in range(_READS):
        _settle(device)
        start_s = time.perf_counter()
        numbers.sum()
        _settle(device)
        best_s = min(best_s, time.perf_counter() - start_s)
    return _READ_BYTES / best_s, None


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
