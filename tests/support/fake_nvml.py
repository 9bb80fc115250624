"""A driver's library that acts like pynvml, with devices by script."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any


class NVMLError(Exception):
    pass


class NotSupported(NVMLError):
    pass


class NoPermission(NVMLError):
    pass


class GpuIsLost(NVMLError):
    pass


@dataclass
class Device:
    """busy: utilisation in percent. sm: SM activity in percent, None without GPM. fails: error by what is asked."""

    uuid: str
    busy: float = 0.0
    sm: float | None = None
    fails: dict[str, NVMLError] = field(default_factory=dict)
    # What GPM says of its metric; 0 is success.
    sm_return: int = 0
    # Reads until the device is gone.
    lasts: int | None = None


class FakeNvml:
    """What nvml.py asks for, of `devices`. fails: what nvmlInit raises. partitions: by UUID only, as MIG's are."""

    NVMLError = NVMLError
    NVMLError_GpuIsLost = GpuIsLost
    NVML_CLOCK_SM = 1
    NVML_GPM_METRIC_SM_UTIL = 2
    NVML_GPM_METRICS_GET_VERSION = 1
    NVML_SUCCESS = 0

    def __init__(
        self, *devices: Device, fails: Exception | None = None, partitions: tuple[Device, ...] = ()
    ) -> None:
        self._devices = devices
        self._partitions = partitions
        self._fails = fails
        self.num_gpm_samples = 0

    def nvmlInit(self) -> None:  # noqa: N802 - theirs
        if self._fails is not None:
            raise self._fails

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self._devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Device:  # noqa: N802
        return self._devices[index]

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Device:  # noqa: N802
        for device in (*self._devices, *self._partitions):
            if device.uuid == uuid:
                return device
        raise NVMLError("Not Found")

    def nvmlDeviceGetUUID(self, device: Device) -> str:  # noqa: N802
        return device.uuid

    def nvmlDeviceGetName(self, device: Device) -> bytes:  # noqa: N802
        return b"NVIDIA Fake"

    def nvmlDeviceGetUtilizationRates(self, device: Device) -> Any:  # noqa: N802
        self._check(device, "utilisation")
        return SimpleNamespace(gpu=device.busy)

    def nvmlDeviceGetMemoryInfo(self, device: Device) -> Any:  # noqa: N802
        self._check(device, "memory")
        return SimpleNamespace(used=30, total=120)

    def nvmlDeviceGetPowerUsage(self, device: Device) -> int:  # noqa: N802
        self._check(device, "power")
        return 250_000

    def nvmlDeviceGetClockInfo(self, device: Device, clock: int) -> int:  # noqa: N802
        assert clock == self.NVML_CLOCK_SM
        return 1500

    def nvmlGpmQueryDeviceSupport(self, device: Device) -> Any:  # noqa: N802
        self._check(device, "gpm")
        return SimpleNamespace(isSupportedDevice=int(device.sm is not None))

    def nvmlGpmSampleAlloc(self) -> list[Device]:  # noqa: N802
        self.num_gpm_samples += 1
        return []

    def nvmlGpmSampleGet(self, device: Device, sample: list[Device]) -> list[Device]:  # noqa: N802
        sample.append(device)
        return sample

    def nvmlGpmSampleFree(self, sample: list[Device]) -> None:  # noqa: N802
        self.num_gpm_samples -= 1

    def c_nvmlGpmMetricsGet_t(self) -> Any:  # noqa: N802
        return SimpleNamespace(metrics=[SimpleNamespace(metricId=0, value=0.0, nvmlReturn=0)])

    def nvmlGpmMetricsGet(self, asked: Any) -> Any:  # noqa: N802
        assert asked.sample1 is not asked.sample2
        assert asked.metrics[0].metricId == self.NVML_GPM_METRIC_SM_UTIL
        self._check(asked.sample2[0], "gpm metrics")
        asked.metrics[0].value = asked.sample2[0].sm
        asked.metrics[0].nvmlReturn = asked.sample2[0].sm_return
        return asked

    @staticmethod
    def _check(device: Device, what: str) -> None:
        if device.lasts is not None and what == "utilisation":
            if device.lasts == 0:
                raise GpuIsLost("GPU is lost")
            device.lasts -= 1
        if what in device.fails:
            raise device.fails[what]
