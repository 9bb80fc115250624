"""ServerMetrics: the target's own gauges and counters, sampled on the clock of the run."""

from __future__ import annotations

import asyncio

import httpx
import pyarrow as pa

from loadgen.replay.clock import RunClock
from loadgen.telemetry.dcgm import PREFIX as DCGM_PREFIX
from loadgen.telemetry.dcgm import device_readings
from loadgen.telemetry.prometheus import parse_metrics, parse_series
from loadgen.telemetry.samples import SCHEMA, Samples

__all__ = ["SCHEMA", "MetricsTransport", "ServerMetrics"]

# What carries the questions, in place of the network.
MetricsTransport = httpx.AsyncBaseTransport

# What the report draws or may need; a server's other series would swell the file.
_PREFIXES = ("vllm:", "sglang:", "tgi_", "nv_inference_", "nv_gpu_", "loadgen_target:")
_TIMEOUT_S = 2.0


class ServerMetrics:
    """Asks `base_url`/metrics each `every_s`. A dead endpoint is a warning, never a failure of the run.

    A DCGM exporter's series become readings of its devices.

    The moment of a sample is that of its answer; on a slow server it lies up to the answer's time late.
    is_whole_url: base_url is asked as it stands.
    source: what the samples say they are of.
    """

    def __init__(
        self,
        base_url: str,
        headers: tuple[tuple[str, str], ...] = (),
        every_s: float = 0.5,
        transport: MetricsTransport | None = None,
        *,
        is_whole_url: bool = False,
        source: str = "server",
    ) -> None:
        self._url = base_url if is_whole_url else f"{base_url}/metrics"
        self._source = source
        self._whose = f"{base_url}:" if is_whole_url else "the target's /metrics"
        self._headers = dict(headers)
        self._every_s = every_s
        self._transport = transport
        self.samples = Samples()
        self._failures = 0
        self._answered = 0
        self._last_failure = ""

    async def sample_forever(self, clock: RunClock) -> None:
        """Sample until cancelled; gives up for good where there are no metrics at all."""
        async with httpx.AsyncClient(
            headers=self._headers, timeout=_TIMEOUT_S, trust_env=False, transport=self._transport
        ) as client:
            while True:
                await self._sample(client, clock)
                if not self._answered and self._failures >= 3:
                    return
                await asyncio.sleep(self._every_s)

    async def _sample(self, client: httpx.AsyncClient, clock: RunClock) -> None:
        try:
            answer = await client.get(self._url)
            answer.raise_for_status()
            samples = parse_metrics(answer.text)
            devices = list(device_readings(parse_series(answer.text))) if DCGM_PREFIX in answer.text else []
        except (httpx.HTTPError, ValueError) as exc:
            self._failures += 1
            self._last_failure = _words(exc)
            return
        self._answered += 1
        moment_ns = clock.now_ns()
        for sample in samples:
            if sample.name.startswith(_PREFIXES):
                self.samples.add(moment_ns, self._source, sample.name, sample.value)
        for source, name, value in devices:
            self.samples.add(moment_ns, source, name, value)

    def table(self) -> pa.Table:
        """Samples as rows of SCHEMA; empty where the server told nothing."""
        return self.samples.table()

    @property
    def warnings(self) -> list[str]:
        """What the answers lacked; a question that the end of the run cut off counts as neither."""
        found: list[str] = []
        if self._failures:
            asked = self._answered + self._failures
            found.append(f"{self._whose} answered {self._answered} of {asked} times: {self._last_failure}")
        if self._answered and self.samples.is_empty:
            found.append(
                f"{self._whose} has no series that is known here ({', '.join(_PREFIXES)}): its queue and "
                "batches are not on the time line"
            )
        return found


def _words(exc: Exception) -> str:
    if isinstance(exc, httpx.HTTPStatusError):
        return f"HTTP {exc.response.status_code}"
    return str(exc).splitlines()[0] if str(exc) else type(exc).__name__
