"""SGLang's request log, as text or as JSON: a request received is the arrival, joined by rid with its end.

Source: sglang/srt/utils/request_logger.py; needs --log-requests. The stamp is local time without a zone: 1 s in
text, 1 us with --log-requests-format json. Lengths stand at the end alone, so a request that did not
finish has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.formats.sglang_events import SglangEvent, event_of
from loadgen.record.joined_requests import JoinedRequests
from loadgen.record.line_batch import LineBatch
from loadgen.record.prefix_blocks import PrefixBlocks
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings
from loadgen.record.zone import ZoneClock, parse_zone
from loadgen.trace.moments import calendar_ns


class SglangFormat:
    """SGLang's request log."""

    needs = "SGLang logs requests with --log-requests"

    def __init__(self, settings: RecordSettings) -> None:
        self._zone = settings.zone
        self._blocks = None if settings.prefix_salt is None else PrefixBlocks(settings.prefix_salt)
        self._any_text = False

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(_is_event(line) for line in head)

    def stamp_facts(self) -> StampFacts:
        return StampFacts(
            "arrival",
            "the time of 'Receive:'" if self._any_text else "the time of request.received",
            resolution_ns=10**9 if self._any_text else 1000,
            zone=self._zone,
        )

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        if self._zone is None:
            raise RecordError(
                "SGLang's stamps carry no zone", hint="say which with --zone: UTC, +02:00, Europe/Berlin"
            )
        findings.assume(f"stamps are in {self._zone}")
        clock = ZoneClock(parse_zone(self._zone))
        requests = JoinedRequests()
        for batch in batches:
            for index, line in enumerate(batch.lines()):
                try:
                    event = event_of(line, with_prompt=self._blocks is not None)
                    if event is None or (event.is_finish and not _finished(event, requests)):
                        findings.num_other += 1
                    elif not event.is_finish:
                        self._begin(event, _unix_ns(event.stamp, clock), requests)
                except ValueError as exc:
                    findings.add_malformed(batch.source, batch.number_of(index), str(exc), line)
            yield requests.take()
        yield requests.take(is_end=True)
        if self._any_text:
            findings.warn(
                "stamps have a resolution of 1 s: bursts within a second are lost "
                "(--log-requests-format json writes microseconds)"
            )

    def _begin(self, event: SglangEvent, arrival_ns: int, requests: JoinedRequests) -> None:
        self._any_text |= event.is_text
        for rid in event.rids:
            request = requests.begin(rid.encode(), arrival_ns)
            request.stream = event.stream
            if self._blocks is not None:
                request.prefix_blocks = self._blocks.of(event.prompt)


def _unix_ns(stamp: str, clock: ZoneClock) -> int:
    calendar, offset_ns = calendar_ns(stamp)
    return clock.unix_ns(calendar) if offset_ns is None else calendar - offset_ns


def _finished(event: SglangEvent, requests: JoinedRequests) -> bool:
    """Whether the request is known that this is the end of."""
    request = requests.find(event.rids[0].encode())
    if request is None:
        return False
    request.input_tokens, request.output_tokens, request.duration_ns = (
        event.input_tokens,
        event.output_tokens,
        event.duration_ns,
    )
    requests.finish(request)
    return True


def _is_event(line: bytes) -> bool:
    try:
        return event_of(line) is not None
    except ValueError:
        return False
