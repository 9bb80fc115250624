"""NVML: readings of NVIDIA devices by the driver's library. The one module that knows it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from loadgen.telemetry.gpu import Gpu, GpuUnreadable, Reading
from loadgen.telemetry.samples import (
    GPU_ACTIVE,
    GPU_CLOCK,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
)

_MHZ = 1e6


class Nvml:
    """A GpuLibrary over the module pynvml, or one that acts like it.

    SM activity comes from the driver's GPM, between two successive reads of a device: the first read has none.
    """

    def __init__(self, library: Any = None) -> None:
        self._given = library
        self._library: Any = None
        self._handles: dict[str, Any] = {}
        # The sample of GPM at the last read, by device; None where the device has no GPM.
        self._gpm: dict[str, Any] = {}

    def devices(self) -> Sequence[Gpu]:
        nvml = self._opened()
        try:
            handles = [nvml.nvmlDeviceGetHandleByIndex(i) for i in range(nvml.nvmlDeviceGetCount())]
            return [self._gpu(handle, index) for index, handle in enumerate(handles)]
        except nvml.NVMLError as exc:
            raise GpuUnreadable(str(exc)) from exc

    def device(self, uuid: str) -> Gpu:
        nvml = self._opened()
        try:
            return self._gpu(nvml.nvmlDeviceGetHandleByUUID(uuid), -1)
        except nvml.NVMLError as exc:
            raise GpuUnreadable(str(exc)) from exc

    def read(self, gpu: Gpu) -> Reading:
        """Raises GpuUnreadable where the device is gone; a value that it refuses is unknown, with the reason."""
        nvml, handle = self._opened(), self._handles[gpu.uuid]
        values: dict[str, float] = {}
        unknown: dict[str, str] = {}

        def take(names: tuple[str, ...], ask: Callable[[], tuple[float, ...] | None]) -> None:
            try:
                told = ask()
            except nvml.NVMLError_GpuIsLost as exc:
                raise GpuUnreadable(str(exc)) from exc
            except nvml.NVMLError as exc:
                unknown.update(dict.fromkeys(names, str(exc)))
                return
            if told is not None:
                values.update(zip(names, told, strict=True))

        def memory() -> tuple[float, float]:
            told = nvml.nvmlDeviceGetMemoryInfo(handle)
            return float(told.used), float(told.total)

        take((GPU_ACTIVE,), lambda: (nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,))
        take((GPU_MEMORY_USED, GPU_MEMORY_TOTAL), memory)
        take((GPU_POWER,), lambda: (nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,))
        take((GPU_CLOCK,), lambda: (nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * _MHZ,))
        take((GPU_SM_ACTIVE,), lambda: self._sm_active(gpu.uuid, handle))
        if self._gpm.get(gpu.uuid, ...) is None:
            unknown.setdefault(GPU_SM_ACTIVE, "the device has no GPM (before Hopper, or a partition)")
        return Reading(values, unknown)

    def _sm_active(self, uuid: str, handle: Any) -> tuple[float] | None:
        """Between the read before and this one; None at the first read, and where the device has no GPM."""
        nvml = self._library
        if uuid not in self._gpm and not nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            self._gpm[uuid] = None
        if self._gpm.get(uuid, ...) is None:
            return None
        before = self._gpm.get(uuid)
        now = nvml.nvmlGpmSampleGet(handle, nvml.nvmlGpmSampleAlloc())
        self._gpm[uuid] = now
        if before is None:
            return None
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.sample1, asked.sample2, asked.numMetrics = before, now, 1
        asked.metrics[0].metricId = nvml.NVML_GPM_METRIC_SM_UTIL
        try:
            told = nvml.nvmlGpmMetricsGet(asked).metrics[0]
        finally:
            nvml.nvmlGpmSampleFree(before)
        if told.nvmlReturn != nvml.NVML_SUCCESS:
            raise nvml.NVMLError(told.nvmlReturn)
        return (told.value / 100,)

    def _gpu(self, handle: Any, index: int) -> Gpu:
        uuid, name = (
            told.decode() if isinstance(told, bytes) else str(told)
            for told in (self._library.nvmlDeviceGetUUID(handle), self._library.nvmlDeviceGetName(handle))
        )
        self._handles[uuid] = handle
        return Gpu(uuid, name, index)

    def _opened(self) -> Any:
        """The library, initialised once. Raises GpuUnreadable where it is not installed or finds no driver."""
        if self._library is not None:
            return self._library
        library = self._given
        if library is None:
            try:
                library = importlib.import_module("pynvml")
            except ImportError as exc:
                raise GpuUnreadable("nvidia-ml-py is not installed (pip install 'loadgen[gpu]')") from exc
        try:
            library.nvmlInit()
        except library.NVMLError as exc:
            raise GpuUnreadable(str(exc)) from exc
        self._library = library
        return library
