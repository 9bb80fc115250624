"""Traefik's access log in its own variant of the common log format: the stamp is the START, to 1 s.

Source: doc.traefik.io, access logs; traefik/traefik pkg/middlewares/accesslog. Behind the combined part stand
the number of the request, router, server and the duration in ms. It looks like nginx's and Apache's up to
there; the end tells it from them. The length of the request stands nowhere: `format: json` tells it, and the
moment to 1 ns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from loadgen.record.fields import MAX_COUNT
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import LineBatch
from loadgen.record.matched_lines import matched_lines
from loadgen.record.request_batch import RequestBatch, RequestRows
from loadgen.record.request_filter import RequestFilter
from loadgen.record.settings import RecordSettings
from loadgen.trace.moments import calendar_ns

_QUOTED = rb'"(?:[^"\\]|\\.)*"'
_LINE = re.compile(
    rb'\S+ - .*?\[(\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [+-]\d{4})\] "((?:[^"\\]|\\.)*)" (\d{1,3}|-) (\d+|-) '
    + _QUOTED
    + rb" "
    + _QUOTED
    + rb" \d+ "
    + _QUOTED
    + rb" "
    + _QUOTED
    + rb" (\d{1,12})ms$"
)
_COLUMNS = ("output_bytes", "status", "duration_ns", "endpoint")


class TraefikClfFormat:
    """Traefik text lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._filter = RequestFilter(settings.path_prefixes)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(_LINE.match(line) for line in head[:50])

    @property
    def order_matters(self) -> bool:
        """Whether lines have to be read in their order, by one process."""
        return False

    def stamp_facts(self) -> StampFacts:
        return StampFacts("arrival", "the start of the request as it stands (1 s)", resolution_ns=10**9)

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.assume(self._filter.description)
        findings.warn(
            "stamps have a resolution of 1 s: bursts within a second are lost; `format: json` has 1 ns"
        )
        rows = RequestRows(_COLUMNS)
        for batch in batches:
            for index, line, groups in matched_lines(batch, _LINE, "a Traefik access log line", findings):
                stamp, request, status, sent, took = groups
                endpoint = self._filter.endpoint(request)
                if endpoint is None:
                    findings.num_other += 1
                    continue
                try:
                    calendar, offset_ns = calendar_ns(stamp.decode())
                except ValueError as exc:
                    findings.add_malformed(batch.source, batch.number_of(index), str(exc), line)
                    continue
                values = (_number(sent), _number(status), int(took) * 10**6, endpoint)
                rows.add(calendar - (offset_ns or 0), values)
            yield rows.take()


def _number(digits: bytes) -> int | None:
    number = None if digits == b"-" else int(digits)
    return number if number is not None and number <= MAX_COUNT else None
