"""Host: CPU and memory of the machine that sends; also the target's where both are one."""

from __future__ import annotations

import asyncio

import psutil
import pyarrow as pa

from loadgen.replay.clock import RunClock
from loadgen.telemetry.samples import HOST_CPU, HOST_MEMORY, Samples

_SOURCE = "host"


class HostProbe:
    """Reads each `every_s`; CPU is the share of all cores since the read before."""

    def __init__(self, every_s: float = 0.5) -> None:
        self._every_s = every_s
        self.samples = Samples()

    async def sample_forever(self, clock: RunClock) -> None:
        psutil.cpu_percent()  # the first call has no read before it
        while True:
            await asyncio.sleep(self._every_s)
            moment_ns = clock.now_ns()
            self.samples.add(moment_ns, _SOURCE, HOST_CPU, psutil.cpu_percent() / 100)
            self.samples.add(moment_ns, _SOURCE, HOST_MEMORY, psutil.virtual_memory().percent / 100)

    def table(self) -> pa.Table:
        return self.samples.table()

    @property
    def warnings(self) -> list[str]:
        return []
