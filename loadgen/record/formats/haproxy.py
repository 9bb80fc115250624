"""HAProxy's HTTP log: the moment in brackets is the start of the request, so it is the arrival, in ms.

Source: configuration manual, 8.2.3 and 8.4. The moment (%tr, since 1.7) is local time without a zone, so
--zone has to be told; before 1.7 it was the accept of the connection, which keep-alive makes earlier. Lines
are written at the end. Of the timers TR/Tw/Tc/Tr/Ta (ms, -1 = not reached) the last is the duration; with
`option logasap` it and the bytes begin with +, as they go on after the line: then neither is known. The
length of the request stands nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from loadgen.record.fields import MAX_COUNT, status_or_none
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.request_filter import RequestFilter
from loadgen.record.settings import RecordSettings
from loadgen.record.stamp_reader import StampReader

_MOMENT = rb"\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?:\.\d+)?(?: [+-]\d{4})?"
# One unbounded run at a time between the marks, or a hostile line costs the square of its length.
_LINE = re.compile(
    rb"(?:^|\s)\S+:\d+ \[("
    + _MOMENT
    + rb")\] \S+ [^\s/]+/[^\s/]+ (?:-?\d+/){4}(\+?-?\d+) (-?\d{1,3}) (\+?\d+) \S+ \S+ \S{4} "
    rb'(?:\d+/){4}\+?\d+ \d+/\d+ (?:\{.*?\} )?"(<BADREQ>|[^" ]+ [^" ]+)'
)
# Messages of the program itself, lines of TCP mode and errors of connections are no requests, but no damage either.
_MESSAGE = re.compile(rb"haproxy\[\d+\]: (?!\S+:\d+ \[)")
_NO_REQUEST = re.compile(
    rb"(?:^|\s)\S+:\d+ \["
    + _MOMENT
    + rb"\] (?:[^\s/]+/[^\s/]+: |\S+ [^\s/]+/[^\s/]+ -?\d+/-?\d+/\+?-?\d+ \+?\d+ )"
)
_BEGINNING = re.compile(rb"\S+:\d+ \[")


class HaproxyFormat:
    """HAProxy HTTP log lines, with or without the prefix of syslog."""

    def __init__(self, settings: RecordSettings) -> None:
        self._filter = RequestFilter(settings.path_prefixes)
        self._stamps = StampReader("iso", settings.zone)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(_LINE.search(line) for line in head[:50])

    @property
    def order_matters(self) -> bool:
        """Whether lines have to be read in their order, by one process."""
        return self._stamps.order_matters

    def stamp_facts(self) -> StampFacts:
        return StampFacts("arrival", "the moment in brackets (%tr)", 10**6, self._stamps.zone_used)

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.assume(self._filter.description)
        for batch in batches:
            numbers: list[int] = []
            cells: list[tuple[str, bytes, bytes, bytes, str]] = []
            for index, line in enumerate(batch.lines()):
                found = _LINE.search(line)
                if found is None:
                    _tell_unmatched(batch, index, line, findings)
                    continue
                stamp, took, status, sent, request = found.groups()
                endpoint = self._filter.endpoint(request)
                if endpoint is None:
                    findings.num_other += 1
                    continue
                numbers.append(index)
                cells.append((stamp.decode(), took, status, sent, endpoint))
            stamps, tooks, statuses, sents, endpoints = zip(*cells, strict=True) if cells else [()] * 5
            arrival_ns, faults = self._stamps.column(list(stamps), batch.places(numbers))
            findings.add_faults(batch, numbers, faults)
            yield RequestBatch(
                arrival_ns,
                {
                    "endpoint": list(endpoints),
                    "duration_ns": pa.array([_final(took, 10**6, 2**62) for took in tooks], pa.int64()),
                    "output_bytes": pa.array([_final(sent, 1, MAX_COUNT) for sent in sents], pa.int32()),
                    "status": pa.array([status_or_none(status.decode()) for status in statuses], pa.int16()),
                },
            ).without(faults)
        self._stamps.report(findings)


def _final(digits: bytes, unit: int, limit: int) -> int | None:
    """The number in `digits` times `unit`; None for -1, and for one that still grew when the line was written."""
    if digits.startswith((b"+", b"-")):
        return None
    number = int(digits) * unit
    return number if number <= limit else None


def _tell_unmatched(batch: LineBatch, index: int, line: bytes, findings: Findings) -> None:
    is_message = not _BEGINNING.match(line) if batch.is_unwrapped else _MESSAGE.search(line)
    if is_message or _NO_REQUEST.search(line):
        findings.num_other += 1
    else:
        reason = "not a line of HAProxy's HTTP log" if line else "an empty line"
        findings.add_malformed(batch.source, batch.number_of(index), reason, line)
