"""Envoy's and Istio's default text access logs: [START_TIME] is the arrival, in ms, UTC; written at completion.

Source: envoyproxy.io, access log usage. Behind the flags (and Istio's details) stand BYTES_RECEIVED and BYTES_SENT
(bodies), DURATION (ms, from start to last byte) and the upstream's time. Code 0 means that no response began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from loadgen.errors import RecordError
from loadgen.record.access_lines import pattern_of, read_access_lines
from loadgen.record.decimal_columns import counts, nanoseconds
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.formats.nginx_pattern import NginxPattern, compile_log_format
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.request_filter import RequestFilter
from loadgen.record.settings import RecordSettings

_PATTERNS = tuple(
    compile_log_format(
        f'[$start_time] "$request" $status $flags {details}$request_length $bytes_sent $duration_ms '
        '$service_time "$rest'
    )
    for details in ("", '$details $termination "$failure" ')
)


class EnvoyFormat:
    """Envoy text access log lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._filter = RequestFilter(settings.path_prefixes)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        text = b"\n".join(head[:20])
        return any(any(found) for pattern in _PATTERNS for found in pattern.regex.findall(text))

    def stamp_facts(self) -> StampFacts:
        return StampFacts(marks="arrival", arrival_from="START_TIME as it stands")

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.assume(self._filter.description)
        pattern: NginxPattern | None = None
        for batch in batches:
            pattern = pattern or pattern_of(batch, _PATTERNS)
            lines = read_access_lines(batch, pattern, self._filter, findings)
            arrival_ns, faults = lines.moments_ns("start_time")
            findings.add_faults(batch, lines.numbers.tolist(), faults)
            try:
                yield RequestBatch(
                    arrival_ns,
                    {
                        "endpoint": lines.endpoints,
                        "duration_ns": pa.array(nanoseconds(lines.values["duration_ms"], 10**6)),
                        "input_bytes": counts(lines.values["request_length"]),
                        "output_bytes": counts(lines.values["bytes_sent"]),
                        "status": counts(lines.values["status"]),
                    },
                ).without(faults)
            except ValueError as exc:
                raise RecordError(f"{batch.source}: from line {batch.first_line} on: {exc}") from exc
