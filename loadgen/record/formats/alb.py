"""AWS ALB access logs: request_creation_time is the arrival, UTC, 1 us.

Field 2 is the moment the response was sent; the three processing times do not lead back from it: the
target's ends at the first byte, and they are -1 when no target answered. Sizes are with headers. New
fields are added at the end of lines by year.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import LineBatch
from loadgen.record.matched_lines import matched_lines
from loadgen.record.request_batch import RequestBatch, RequestRows
from loadgen.record.request_filter import RequestFilter
from loadgen.record.settings import RecordSettings
from loadgen.trace.moments import calendar_ns

_STAMP = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z"
_LINE = re.compile(
    rb"(?:https?|h2|grpcs|wss?) (" + _STAMP + rb") \S+ \S+ \S+ \S+ \S+ \S+ (\d{3}|-) (?:\d{3}|-) (\d+) (\d+) "
    rb'"(\S+) (\S+) [^"]*" "(?:[^"\\]|\\.)*" \S+ \S+ \S+ "[^"]*" "[^"]*" "[^"]*" \S+ ('
    + _STAMP
    + rb")(?: |$)"
)
_COLUMNS = ("input_bytes", "output_bytes", "status", "duration_ns", "endpoint")


class AlbFormat:
    """AWS ALB access log lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._filter = RequestFilter(settings.path_prefixes)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(_LINE.match(line) for line in head[:20])

    def stamp_facts(self) -> StampFacts:
        return StampFacts("arrival", "request_creation_time as it stands")

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.assume(self._filter.description)
        rows = RequestRows(_COLUMNS)
        for batch in batches:
            for index, line, groups in matched_lines(batch, _LINE, "an ALB access log line", findings):
                end, status, received, sent, method, target, created = (
                    part.decode("latin-1") for part in groups
                )
                endpoint = self._filter.endpoint_of(method, target)
                if endpoint is None:
                    findings.num_other += 1
                    continue
                try:
                    arrival_ns, end_ns = calendar_ns(created)[0], calendar_ns(end)[0]
                except ValueError as exc:
                    findings.add_malformed(batch.source, batch.number_of(index), str(exc), line)
                    continue
                values = (int(received), int(sent), None if status == "-" else int(status))
                rows.add(arrival_ns, (*values, max(0, end_ns - arrival_ns), endpoint))
            yield rows.take()
