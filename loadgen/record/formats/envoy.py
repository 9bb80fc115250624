"""Envoy's default text access log: [START_TIME] is the arrival, in ms, UTC; written at completion.

Source: envoyproxy.io, access log usage. Behind the flags stand BYTES_RECEIVED and BYTES_SENT (bodies), DURATION
(ms, from start to last byte) and the upstream's time. Code 0 means that no response began.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from loadgen.errors import RecordError
from loadgen.record.access_lines import read_access_lines
from loadgen.record.decimal_columns import counts, nanoseconds
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.formats.nginx_pattern import compile_log_format
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.request_filter import RequestFilter
from loadgen.record.settings import RecordSettings

_DEFAULT = compile_log_format(
    '[$start_time] "$request" $status $flags $request_length $bytes_sent $duration_ms $service_time "$rest'
)


class EnvoyFormat:
    """Envoy text access log lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._filter = RequestFilter(settings.path_prefixes)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(any(found) for line in head[:20] for found in _DEFAULT.regex.findall(line))

    def stamp_facts(self) -> StampFacts:
        return StampFacts(marks="arrival", arrival_from="START_TIME as it stands")

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.assume(self._filter.description)
        for batch in batches:
            lines = read_access_lines(batch, _DEFAULT, self._filter, findings)
            try:
                yield RequestBatch(
                    lines.moments_ns("start_time"),
                    {
                        "endpoint": lines.endpoints,
                        "duration_ns": pa.array(nanoseconds(lines.values["duration_ms"], 10**6)),
                        "input_bytes": counts(lines.values["request_length"]),
                        "output_bytes": counts(lines.values["bytes_sent"]),
                        "status": counts(lines.values["status"]),
                    },
                )
            except ValueError as exc:
                raise RecordError(f"{batch.source}: from line {batch.first_line} on: {exc}") from exc
