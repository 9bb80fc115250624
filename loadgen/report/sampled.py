"""Sampled: figures from what was read beside the requests: devices, host, and the server's own counters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.report.figures import Figure, Floats, Missing
from loadgen.telemetry.samples import (
    GPU_ACTIVE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_PREFIX,
    GPU_SM_ACTIVE,
    HOST_CPU,
)

Spans = Sequence[tuple[float, float]]

# Counters of time in queues, and of time in all, over requests that ended; by the names that servers give them.
_QUEUE_COUNTERS = (
    ("vllm:request_queue_time_seconds_sum", "vllm:e2e_request_latency_seconds_sum"),
    ("sglang:queue_time_seconds_sum", "sglang:e2e_request_latency_seconds_sum"),
    ("tgi_request_queue_duration_sum", "tgi_request_duration_sum"),
    ("nv_inference_queue_duration_us_total", "nv_inference_request_duration_us_total"),
)
_KV_GAUGES = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")
_PREEMPTIONS = ("vllm:num_preemptions_total",)
_STEPS_S = "loadgen_target:step_busy_seconds_total"
_KERNELS_S = "loadgen_target:kernel_seconds_total"
_CPU_WAIT_S = "loadgen_target:cpu_wait_seconds_total"
_ROWS, _USEFUL_ROWS = "loadgen_target:rows_total", "loadgen_target:useful_rows_total"
_NOTHING = "nothing was sampled beside this run"


@dataclass(frozen=True)
class Series:
    """One series in order of time."""

    moments_s: Floats
    values: Floats

    def within(self, spans: Spans) -> Floats:
        """The values that were read within the spans."""
        inside = np.zeros(self.values.size, dtype=bool)
        for start_s, end_s in spans:
            inside |= (self.moments_s >= start_s) & (self.moments_s < end_s)
        return self.values[inside]

    @property
    def has_reset(self) -> bool:
        return bool((np.diff(self.values) < 0).any())

    def increase(self, spans: Spans) -> float | None:
        """By how much a counter grew up to the reads within the spans; None with fewer than two reads there.

        A counter that fell began anew at 0: what it had reached before that is lost with its server.
        """
        if self.values.size < 2:
            return None
        steps = np.diff(self.values)
        steps = np.where(steps < 0, self.values[1:], steps)
        later = Series(self.moments_s[1:], steps).within(spans)
        return float(later.sum()) if later.size else None

    def rate(self, spans: Spans) -> float | None:
        """Growth a second of a counter, over the time between those reads; None as for increase."""
        grown = self.increase(spans)
        if grown is None:
            return None
        passed_s = float(Series(self.moments_s[1:], np.diff(self.moments_s)).within(spans).sum())
        return grown / passed_s if passed_s > 0 else None


class Sampled:
    """Telemetry of a run, by series. telemetry: rows of samples.SCHEMA, or None where none was kept."""

    def __init__(self, telemetry: pa.Table | None) -> None:
        self._series: dict[tuple[str, str], Series] = {}
        self._is_empty = telemetry is None
        if telemetry is None or not telemetry.num_rows:
            return
        moments_s = np.asarray(telemetry.column("t_ns").to_numpy(), dtype=np.float64) / 1e9
        values = np.asarray(telemetry.column("value").to_numpy(), dtype=np.float64)
        sources, source_names = _codes(telemetry.column("source"))
        names, name_names = _codes(telemetry.column("name"))
        keys = sources * len(name_names) + names
        order = np.lexsort((moments_s, keys))
        keys = keys[order]
        for key in np.unique(keys):
            rows = order[np.searchsorted(keys, key) : np.searchsorted(keys, key, side="right")]
            rows = rows[np.isfinite(values[rows])]
            if rows.size:
                source, name = divmod(int(key), len(name_names))
                self._series[source_names[source], name_names[name]] = Series(moments_s[rows], values[rows])

    def named(self, name: str) -> dict[str, Series]:
        """The series of this name, by source."""
        return {source: series for (source, own), series in self._series.items() if own == name}

    def figures(self, spans: Spans) -> dict[str, Figure]:
        """Every figure of samples over these spans; Missing with the reason where there is none."""
        if self._is_empty:
            return dict.fromkeys(FIGURES, Missing(_NOTHING))
        return {
            "server_queue_share": self._queue_share(spans),
            "kv_cache_share": self._highest(_KV_GAUGES, spans, "the server tells no use of its KV cache"),
            "preemptions": self._increase(_PREEMPTIONS, spans, "the server tells no preemptions"),
            "engine_active_share": self._rate(_STEPS_S, spans, "the server tells no time within its steps"),
            "engine_kernel_share": self._rate(_KERNELS_S, spans, "the server tells no time of its kernels"),
            "engine_cpu_wait_share": self._rate(_CPU_WAIT_S, spans, "the server tells no waits for a CPU"),
            "useful_row_share": self.useful_row_share(spans),
            "gpu_active_share": self._of_devices(GPU_ACTIVE, spans),
            "gpu_sm_active_share": self._of_devices(GPU_SM_ACTIVE, spans),
            "gpu_memory_share": self._memory(spans),
            "host_cpu_share": self._mean(HOST_CPU, spans, "the host was not read"),
        }

    @property
    def warnings(self) -> list[str]:
        """What a reader of the figures must know: counters that began anew, devices that told only some."""
        found: list[str] = []
        counters = [name for pair in _QUEUE_COUNTERS for name in pair] + [*_PREEMPTIONS, _STEPS_S]
        reset = [name for (_, name), series in self._series.items() if name in counters and series.has_reset]
        if reset:
            found.append(
                f"the server's counters began anew during the run ({reset[0]}): it was restarted; what it had "
                "counted since the last reading before that is lost"
            )
        devices = {source for source, _ in self._series if source.startswith(GPU_PREFIX)}
        active = set(self.named(GPU_ACTIVE))
        if active and devices - active:
            silent = ", ".join(sorted(devices - active))
            found.append(f"GPU activity is the mean of {len(active)} devices; unknown of {silent}")
        return found

    def useful_row_share(self, spans: Spans) -> Figure:
        rows, useful = self._total(_ROWS, spans), self._total(_USEFUL_ROWS, spans)
        if rows is None or useful is None:
            return Missing("the server tells no rows of its steps")
        return useful / rows if rows > 0 else Missing("no row was computed between readings")

    def _queue_share(self, spans: Spans) -> Figure:
        for part_name, whole_name in _QUEUE_COUNTERS:
            whole = self._total(whole_name, spans)
            part = self._total(part_name, spans)
            if part is None or whole is None:
                continue
            return part / whole if whole > 0 else Missing("no request ended on the server between readings")
        return Missing("the server's counters tell no time in queues")

    def _total(self, name: str, spans: Spans) -> float | None:
        grown = [series.increase(spans) for series in self.named(name).values()]
        known = [one for one in grown if one is not None]
        return sum(known) if known else None

    def _increase(self, names: Sequence[str], spans: Spans, reason: str) -> Figure:
        totals = [total for name in names if (total := self._total(name, spans)) is not None]
        return totals[0] if totals else Missing(reason)

    def _rate(self, name: str, spans: Spans, reason: str) -> Figure:
        rates = [rate for series in self.named(name).values() if (rate := series.rate(spans)) is not None]
        return sum(rates) if rates else Missing(reason)

    def _highest(self, names: Sequence[str], spans: Spans, reason: str) -> Figure:
        for name in names:
            values = [series.within(spans) for series in self.named(name).values()]
            known = [one for one in values if one.size]
            if known:
                return float(max(one.max() for one in known))
        return Missing(reason)

    def _of_devices(self, name: str, spans: Spans) -> Figure:
        if not any(source.startswith(GPU_PREFIX) for source, _ in self._series):
            return Missing("no GPU was read")
        return self._mean(name, spans, "the devices do not tell it; the notes say why")

    def _mean(self, name: str, spans: Spans, reason: str) -> Figure:
        """Each source weighs the same, however often it was read."""
        values = [series.within(spans) for series in self.named(name).values()]
        means = [float(one.mean()) for one in values if one.size]
        return float(np.mean(means)) if means else Missing(reason)

    def _memory(self, spans: Spans) -> Figure:
        used, total = self.named(GPU_MEMORY_USED), self.named(GPU_MEMORY_TOTAL)
        shares = [
            float(in_use.mean() / whole.mean())
            for source in used
            if source in total
            and (in_use := used[source].within(spans)).size
            and (whole := total[source].within(spans)).size
            and whole.mean() > 0
        ]
        if shares:
            return float(np.mean(shares))
        return Missing("no GPU was read" if not used else "the devices do not tell their memory")


FIGURES = (
    "server_queue_share",
    "kv_cache_share",
    "preemptions",
    "engine_active_share",
    "engine_kernel_share",
    "engine_cpu_wait_share",
    "useful_row_share",
    "gpu_active_share",
    "gpu_sm_active_share",
    "gpu_memory_share",
    "host_cpu_share",
)


def _codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], list[str]]:
    """Dictionary codes and their names."""
    encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
    return np.asarray(
        encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64
    ), encoded.dictionary.to_pylist()
