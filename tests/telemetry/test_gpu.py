"""GPU readings against a driver by script: which devices, what of them, and what is said where nothing can be."""

from __future__ import annotations

import asyncio
import sys

import pytest

from loadgen.replay.clock import RunClock
from loadgen.report.sampled import Sampled
from loadgen.telemetry.gpu import Gpu, GpuProbe, GpuUnreadable, in_use
from loadgen.telemetry.nvml import Nvml
from loadgen.telemetry.probes import is_this_machine, probes_for
from loadgen.telemetry.samples import GPU_ACTIVE, GPU_MEMORY_USED, GPU_SM_ACTIVE
from support.fake_nvml import Device, FakeNvml, NoPermission, NotSupported, NVMLError

FOUR = [Device(f"GPU-{name}", busy) for name, busy in (("aa", 10), ("bb", 20), ("cc", 30), ("dd", 40))]
ALWAYS = [(0.0, 1e9)]


class Steps(RunClock):
    """A clock that is 1 s further each time it is asked."""

    def now_ns(self) -> int:
        object.__setattr__(self, "start_monotonic_ns", self.start_monotonic_ns + 10**9)
        return self.start_monotonic_ns


def sampled(
    library: FakeNvml, mask: str | None = None, *, rounds: int = 3, is_quiet: bool = False
) -> GpuProbe:
    """The probe after it read so many times, or ended by itself."""

    class Counting(Nvml):
        def __init__(self) -> None:
            super().__init__(library)
            self.left = rounds * max(1, library.nvmlDeviceGetCount())
            self.is_over = asyncio.Event()

        def read(self, gpu: Gpu):  # type: ignore[no-untyped-def]
            self.left -= 1
            if self.left < 0:
                raise GpuUnreadable("cut off")
            return super().read(gpu)

    async def sample() -> GpuProbe:
        probe = GpuProbe(Counting(), mask, every_s=0, is_quiet=is_quiet)
        await asyncio.wait_for(probe.sample_forever(Steps(0)), 20)
        return probe

    return asyncio.run(sample())


def values(probe: GpuProbe, name: str) -> list[tuple[str, float]]:
    rows = probe.table().to_pylist()
    return [(row["source"], row["value"]) for row in rows if row["name"] == name]


@pytest.mark.parametrize(
    ("mask", "busy"),
    [
        ("2,3", [30, 40]),
        ("3,2", [40, 30]),
        ("", []),
        (None, [10, 20, 30, 40]),
        ("GPU-cc,GPU-aa", [30, 10]),
        ("GPU-d", [40]),
        ("1,-1,2", [20]),
        ("1,9,2", [20]),
        ("GPU-", []),
        ("1,1", [20]),
    ],
)
def test_the_devices_are_those_that_the_mask_names_in_its_order(mask: str | None, busy: list[float]) -> None:
    # F67
    library = Nvml(FakeNvml(*FOUR))
    found = in_use(library, mask)
    assert [round(library.read(gpu).values[GPU_ACTIVE] * 100) for gpu in found] == busy


def test_an_empty_word_of_a_mask_names_no_device_where_there_is_but_one() -> None:
    assert in_use(Nvml(FakeNvml(Device("GPU-aa"))), " ,GPU-aa") == []


def test_a_partition_is_found_by_its_uuid_and_what_it_does_not_tell_is_unknown() -> None:
    # F66: on a partitioned device utilisation is not supported; memory is.
    part = Device(
        "MIG-1", fails={"utilisation": NotSupported("Not Supported"), "gpm": NotSupported("Not Supported")}
    )
    library = Nvml(FakeNvml(Device("GPU-aa"), partitions=(part,)))
    (gpu,) = in_use(library, "MIG-1")
    reading = library.read(gpu)
    assert GPU_ACTIVE not in reading.values
    assert reading.values[GPU_MEMORY_USED] == 30
    assert reading.unknown == {GPU_ACTIVE: "Not Supported", GPU_SM_ACTIVE: "Not Supported"}
    assert in_use(library, "MIG-2") == []


def test_every_value_of_a_device_is_in_its_unit() -> None:
    library = Nvml(FakeNvml(Device("GPU-aa", 97, sm=21.5)))
    (gpu,) = library.devices()
    first, second = library.read(gpu), library.read(gpu)
    assert GPU_SM_ACTIVE not in first.values | first.unknown  # it takes two samples
    assert second.values == {
        GPU_ACTIVE: 0.97, GPU_SM_ACTIVE: 0.215, GPU_MEMORY_USED: 30, "gpu_memory_total_bytes": 120,
        "gpu_power_w": 250, "gpu_sm_clock_hz": 1.5e9,
    }  # fmt: skip
    assert second.unknown == {}


def test_samples_of_gpm_are_given_back() -> None:
    nvml = FakeNvml(Device("GPU-aa", sm=50))
    library = Nvml(nvml)
    (gpu,) = library.devices()
    for _ in range(10):
        library.read(gpu)
    assert nvml.num_gpm_samples == 1


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        (Device("GPU-aa", sm=50, sm_return=3), "3"),
        (Device("GPU-aa", sm=50, fails={"gpm metrics": NVMLError("Unknown Error")}), "Unknown Error"),
    ],
)
def test_activity_that_gpm_does_not_tell_is_unknown_with_its_reason(device: Device, reason: str) -> None:
    nvml = FakeNvml(device)
    library = Nvml(nvml)
    (gpu,) = library.devices()
    for _ in range(3):
        reading = library.read(gpu)
    assert GPU_SM_ACTIVE not in reading.values
    assert reading.unknown == {GPU_SM_ACTIVE: reason}
    assert nvml.num_gpm_samples == 1


def test_names_are_text_though_the_driver_gives_bytes() -> None:
    assert [(gpu.uuid, gpu.name) for gpu in Nvml(FakeNvml(Device("GPU-aa"))).devices()] == [
        ("GPU-aa", "NVIDIA Fake")
    ]


def test_a_device_without_gpm_says_so() -> None:
    library = Nvml(FakeNvml(Device("GPU-aa", 50)))
    (gpu,) = library.devices()
    assert "no GPM" in library.read(gpu).unknown[GPU_SM_ACTIVE]


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (FakeNvml(fails=NVMLError("Driver Not Loaded")), "Driver Not Loaded"),
        (FakeNvml(), "no device is in use (the machine has none)"),
        (FakeNvml(Device("GPU-aa", fails={"utilisation": NoPermission("Insufficient Permissions")})),
         "GPU-aa: Insufficient Permissions (gpu_active_share unknown)"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_and_is_no_zero(library: FakeNvml, words: str) -> None:
    # F66
    probe = sampled(library)
    assert values(probe, GPU_ACTIVE) == []
    (warning,) = probe.warnings
    assert words in warning
    figures = Sampled(probe.table()).figures(ALWAYS)
    assert not isinstance(figures["gpu_active_share"], float)


def test_a_missing_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with pytest.raises(GpuUnreadable, match=r"loadgen\[gpu\]"):
        Nvml().devices()


def test_nobody_is_told_of_devices_that_nobody_asked_for() -> None:
    assert sampled(FakeNvml(), is_quiet=True).warnings == []


def test_a_device_that_is_lost_keeps_what_it_told_and_says_until_when() -> None:
    # F66: works for a while, then is gone; the others go on.
    probe = sampled(FakeNvml(Device("GPU-aa", 80, lasts=2), Device("GPU-bb", 40)))
    assert values(probe, GPU_ACTIVE).count(("gpu:GPU-aa", 0.8)) == 2
    assert values(probe, GPU_ACTIVE).count(("gpu:GPU-bb", 0.4)) > 2
    # Nothing else of it is asked for either.
    assert values(probe, GPU_MEMORY_USED).count(("gpu:GPU-aa", 30)) == 2
    (warning,) = probe.warnings
    assert "GPU-aa: GPU is lost" in warning
    assert "readings end there" in warning


def test_an_idle_device_counts_in_the_mean() -> None:
    # F68
    probe = sampled(FakeNvml(Device("GPU-aa", 100), Device("GPU-bb", 0)))
    found = Sampled(probe.table())
    assert found.figures(ALWAYS)["gpu_active_share"] == pytest.approx(0.5)
    assert found.warnings == []


def test_a_device_without_activity_makes_the_mean_partial() -> None:
    # F68
    silent = Device("GPU-bb", fails={"utilisation": NotSupported("Not Supported")})
    found = Sampled(sampled(FakeNvml(Device("GPU-aa", 100), silent)).table())
    assert found.figures(ALWAYS)["gpu_active_share"] == pytest.approx(1.0)
    (warning,) = found.warnings
    assert warning == "GPU activity is the mean of 1 devices; unknown of gpu:GPU-bb"


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://[::1]:1", True),
        ("http://localhost", True),
        ("http://gpu7:80", False),
    ],
)
def test_gpus_are_read_where_the_target_runs(url: str, is_here: bool) -> None:
    assert is_this_machine(url) is is_here
    kinds = [type(probe).__name__ for probe in probes_for(url, (), None)]
    assert ("GpuProbe" in kinds) is is_here


def test_a_further_source_of_metrics_never_sees_the_targets_key() -> None:
    probes = probes_for(
        "http://gpu7", (("authorization", "Bearer secret"),), None, more_metrics=["http://x/metrics"]
    )
    assert "secret" not in repr(vars(probes[-1]))


def test_a_real_device_is_read() -> None:
    library = Nvml()
    try:
        gpus = library.devices()
    except GpuUnreadable as exc:
        pytest.skip(f"no GPU here: {exc}")
    for gpu in gpus:
        library.read(gpu)
        reading = library.read(gpu)
        assert reading.values or reading.unknown
        assert all(0 <= reading.values.get(name, 0) <= 1 for name in (GPU_ACTIVE, GPU_SM_ACTIVE))
