"""GPU readings of this machine: which devices are in use, and a probe that samples them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from loadgen.durations import format_duration
from loadgen.replay.clock import RunClock
from loadgen.telemetry.samples import GPU_PREFIX, Samples


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device, or a partition of one. index: its place in the driver's order."""

    uuid: str
    name: str
    index: int


@dataclass(frozen=True, slots=True)
class Reading:
    """values: by name as in samples.py. unknown: why another has no value, by name."""

    values: dict[str, float]
    unknown: dict[str, str]


class GpuUnreadable(Exception):
    """No device can be read, or one no longer can; the message says why."""


class GpuLibrary(Protocol):
    """The driver's library. Every method raises GpuUnreadable where it has no answer."""

    def devices(self) -> Sequence[Gpu]:
        """All devices of the machine, in the driver's order."""
        ...

    def device(self, uuid: str) -> Gpu:
        """One device or partition by its UUID."""
        ...

    def read(self, gpu: Gpu) -> Reading: ...


def in_use(library: GpuLibrary, mask: str | None) -> list[Gpu]:
    """The devices that `mask`, a CUDA_VISIBLE_DEVICES, lets programs use, in its order; all without one.

    Numbers are places in the driver's order, others are UUIDs or beginnings of them. As in CUDA, what follows a
    name that is no device is not seen. Raises GpuUnreadable where the library has no answer.
    """
    every = list(library.devices())
    if mask is None:
        return every
    found: list[Gpu] = []
    for word in mask.split(","):
        gpu = _named(library, every, word.strip())
        if gpu is None or gpu in found:
            break
        found.append(gpu)
    return found


def _named(library: GpuLibrary, every: Sequence[Gpu], word: str) -> Gpu | None:
    if word.isdecimal():
        return every[int(word)] if int(word) < len(every) else None
    if word.startswith("MIG-"):
        try:
            return library.device(word)
        except GpuUnreadable:
            return None
    matching = [gpu for gpu in every if word and gpu.uuid.startswith(word)]
    return matching[0] if len(matching) == 1 else None


class GpuProbe:
    """Reads each device in use every `every_s`. What cannot be read is a warning, never a failure of the run.

    is_quiet: without devices or library, say nothing: nobody asked for readings.
    """

    def __init__(
        self, library: GpuLibrary, mask: str | None, *, every_s: float = 0.5, is_quiet: bool = False
    ) -> None:
        self._library = library
        self._mask = mask
        self._every_s = every_s
        self._is_quiet = is_quiet
        self.samples = Samples()
        self._why_none = ""
        self._gpus: list[Gpu] = []
        # Why a value of a device was not read, the first time; and until when one that was lost was read.
        self._unknown: dict[tuple[str, str], str] = {}
        self._lost: dict[str, str] = {}

    async def sample_forever(self, clock: RunClock) -> None:
        """Sample until cancelled; ends where there is nothing to read."""
        try:
            self._gpus = await asyncio.to_thread(in_use, self._library, self._mask)
        except GpuUnreadable as exc:
            self._why_none = str(exc)
            return
        if not self._gpus:
            shown = "the machine has none" if self._mask is None else f"CUDA_VISIBLE_DEVICES={self._mask!r}"
            self._why_none = f"no device is in use ({shown})"
        while left := [gpu for gpu in self._gpus if gpu.uuid not in self._lost]:
            for gpu in left:
                await self._sample(gpu, clock)
            await asyncio.sleep(self._every_s)

    async def _sample(self, gpu: Gpu, clock: RunClock) -> None:
        try:
            # The driver may take its time; the loop must not.
            reading = await asyncio.to_thread(self._library.read, gpu)
        except GpuUnreadable as exc:
            at = format_duration(clock.now_ns() / 1e9)
            self._lost[gpu.uuid] = f"{exc}, {at} after the start; readings end there"
            return
        moment_ns = clock.now_ns()
        for name, value in reading.values.items():
            self.samples.add(moment_ns, GPU_PREFIX + gpu.uuid, name, value)
        for name, reason in reading.unknown.items():
            self._unknown.setdefault((gpu.uuid, name), reason)

    def table(self) -> pa.Table:
        return self.samples.table()

    @property
    def warnings(self) -> list[str]:
        if self._why_none:
            return [] if self._is_quiet else [f"GPU readings: {self._why_none}"]
        found: dict[str, list[str]] = {}
        for (uuid, name), reason in self._unknown.items():
            found.setdefault(f"{uuid}: {reason}", []).append(name)
        words = [f"{who} ({', '.join(names)} unknown)" for who, names in found.items()]
        words += [f"{uuid}: {reason}" for uuid, reason in self._lost.items()]
        return [f"GPU readings: {'; '.join(words)}"] if words else []
