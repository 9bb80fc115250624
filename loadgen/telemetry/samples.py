"""Samples: readings beside the requests, on the clock of the run, as rows of one table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("t_ns", pa.int64(), nullable=False),  # from the run's start
        pa.field("source", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("name", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)

# Readings of a device, whoever took them; its source is "gpu:" and its UUID. Shares are 0 to 1.
GPU_ACTIVE = "gpu_active_share"  # of time with any kernel on the device: what panels show as utilisation
GPU_SM_ACTIVE = "gpu_sm_active_share"  # of the multiprocessors' time with work, over all of them
GPU_MEMORY_USED = "gpu_memory_used_bytes"
GPU_MEMORY_TOTAL = "gpu_memory_total_bytes"
GPU_POWER = "gpu_power_w"
GPU_CLOCK = "gpu_sm_clock_hz"
GPU_PREFIX = "gpu:"
HOST_CPU = "host_cpu_share"  # over all cores of the machine that sends
HOST_MEMORY = "host_memory_share"


@dataclass(slots=True)
class Samples:
    """Readings so far. What was not read is no row: never 0 in its place."""

    _moments_ns: list[int] = field(default_factory=list)
    _sources: list[str] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)
    _latest: dict[tuple[str, str], float] = field(default_factory=dict)

    def add(self, moment_ns: int, source: str, name: str, value: float) -> None:
        self._moments_ns.append(moment_ns)
        self._sources.append(source)
        self._names.append(name)
        self._values.append(value)
        self._latest[source, name] = value

    @property
    def latest(self) -> Mapping[tuple[str, str], float]:
        """The last value read of each (source, name)."""
        return self._latest

    @property
    def is_empty(self) -> bool:
        return not self._names

    def table(self) -> pa.Table:
        """Rows of SCHEMA, in the order they were read."""
        columns = [self._moments_ns, self._sources, self._names, self._values]
        arrays = [
            pa.array(values, pa.string()).dictionary_encode().cast(field.type)
            if pa.types.is_dictionary(field.type)
            else pa.array(values, field.type)
            for field, values in zip(SCHEMA, columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)
