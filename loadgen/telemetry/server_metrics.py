"""ServerMetrics: the target's own gauges and counters, sampled on the clock of the run."""

from __future__ import annotations

import asyncio

import httpx
import pyarrow as pa

from loadgen.replay.clock import RunClock
from loadgen.telemetry.prometheus import parse_metrics

SCHEMA = pa.schema(
    [
        pa.field("t_ns", pa.int64(), nullable=False),  # from the run's start
        pa.field("source", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("name", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
    ]
)
# What the report draws or may need; a server's other series would swell the file.
_PREFIXES = ("vllm:", "sglang:", "tgi_", "nv_inference_", "loadgen_target:")
_TIMEOUT_S = 2.0


class ServerMetrics:
    """Asks `base_url`/metrics each `every_s`. A dead endpoint is a warning, never a failure of the run.

    The moment of a sample is that of its answer; on a slow server it lies up to the answer's time late.
    transport: what carries the questions, in place of the network.
    """

    def __init__(
        self,
        base_url: str,
        headers: tuple[tuple[str, str], ...] = (),
        every_s: float = 0.5,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = f"{base_url}/metrics"
        self._headers = dict(headers)
        self._every_s = every_s
        self._transport = transport
        self._moments_ns: list[int] = []
        self._names: list[str] = []
        self._values: list[float] = []
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
        except (httpx.HTTPError, ValueError) as exc:
            self._failures += 1
            self._last_failure = _words(exc)
            return
        self._answered += 1
        moment_ns = clock.now_ns()
        for sample in samples:
            if sample.name.startswith(_PREFIXES):
                self._moments_ns.append(moment_ns)
                self._names.append(sample.name)
                self._values.append(sample.value)

    def table(self) -> pa.Table:
        """Samples as rows of SCHEMA; empty where the server told nothing."""
        count = len(self._names)
        columns = [self._moments_ns, ["server"] * count, self._names, self._values]
        arrays = [
            pa.array(values, pa.string()).dictionary_encode().cast(field.type)
            if pa.types.is_dictionary(field.type)
            else pa.array(values, field.type)
            for field, values in zip(SCHEMA, columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    @property
    def warnings(self) -> list[str]:
        """What the answers lacked; a question that the end of the run cut off counts as neither."""
        found: list[str] = []
        if self._failures:
            asked = self._answered + self._failures
            found.append(
                f"the target's /metrics answered {self._answered} of {asked} times: {self._last_failure}"
            )
        if self._answered and not self._names:
            found.append(
                f"the target's /metrics has no series that is known here ({', '.join(_PREFIXES)}): its queue and "
                "batches are not on the time line"
            )
        return found


def _words(exc: Exception) -> str:
    if isinstance(exc, httpx.HTTPStatusError):
        return f"HTTP {exc.response.status_code}"
    return str(exc).splitlines()[0] if str(exc) else type(exc).__name__
