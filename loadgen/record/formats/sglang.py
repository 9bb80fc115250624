"""SGLang server logs: "Receive:" is the arrival, joined by rid with "Finish:".

Source: sglang/srt/utils/request_logger.py; needs --log-requests. The stamp is local time without a zone, 1 s.
Lengths stand in Finish alone, so a request that did not finish has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.formats.source_prefix import SOURCE_PREFIX
from loadgen.record.joined_requests import JoinedRequests
from loadgen.record.line_batch import LineBatch
from loadgen.record.prefix_blocks import PrefixBlocks
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings
from loadgen.record.zone import ZoneClock, parse_zone
from loadgen.trace.moments import calendar_ns

# The rid stands first, or behind the text in older versions; texts are skipped whole, since they may hold `rid=`.
_LINE = re.compile(
    rb"%s\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[^\]]*\] (Receive|Finish): obj=\w+\("
    rb"(?:(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^'\"])*?[ ,])??rid='([^']+)'"
    rb"(?:.*?\bstream=(True|False))?" % SOURCE_PREFIX
)
_PROMPT = re.compile(
    rb"\binput_ids=\[(?P<ids>[\d, ]+)\]|\btext=(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")"
)
_META = re.compile(rb"'(prompt_tokens|completion_tokens|e2e_latency)': ([\d.]+)")


class SglangFormat:
    """SGLang server log lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._zone = settings.zone
        self._blocks = None if settings.prefix_salt is None else PrefixBlocks(settings.prefix_salt)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(_LINE.match(line) for line in head)

    def stamp_facts(self) -> StampFacts:
        return StampFacts("arrival", "the time of 'Receive:'", resolution_ns=10**9, zone=self._zone)

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        if self._zone is None:
            raise RecordError(
                "SGLang's stamps carry no zone", hint="say which with --zone: UTC, +02:00, Europe/Berlin"
            )
        findings.assume(f"stamps are in {self._zone}")
        findings.warn("stamps have a resolution of 1 s: bursts within a second are lost")
        clock = ZoneClock(parse_zone(self._zone))
        requests = JoinedRequests()
        for batch in batches:
            for index, line in enumerate(batch.lines()):
                found = _LINE.match(line)
                if found is None:
                    findings.num_other += 1
                    continue
                stamp, kind, rid, stream = found.groups()
                if kind == b"Finish":
                    request = requests.find(rid)
                    if request is None:
                        findings.num_other += 1
                        continue
                    request.input_tokens, request.output_tokens, request.duration_ns = _lengths(line)
                    requests.finish(request)
                    continue
                try:
                    arrival_ns = clock.unix_ns(calendar_ns(stamp.decode())[0])
                except ValueError as exc:
                    findings.add_malformed(batch.source, batch.number_of(index), str(exc), line)
                    continue
                request = requests.begin(rid, arrival_ns)
                request.stream = None if stream is None else stream == b"True"
                if self._blocks is not None:
                    request.prefix_blocks = self._blocks.of(_prompt(line))
            yield requests.take()
        yield requests.take(is_end=True)


def _prompt(line: bytes) -> str | list[int] | None:
    """The prompt's ids, or its text as Python shows it; None at levels that hide them."""
    found = _PROMPT.search(line)
    if found is None:
        return None
    if found["ids"] is not None:
        return [int(token) for token in found["ids"].split(b",") if token.strip()]
    return found["text"].decode("utf-8", "replace")


def _lengths(line: bytes) -> tuple[int | None, int | None, int | None]:
    """Tokens in, tokens out, duration in ns, from the meta_info at the end of the line."""
    meta = dict(_META.findall(line[line.rfind(b"'meta_info'") :]))
    duration = meta.get(b"e2e_latency")
    return (
        int(meta[b"prompt_tokens"]) if b"prompt_tokens" in meta else None,
        int(meta[b"completion_tokens"]) if b"completion_tokens" in meta else None,
        round(float(duration) * 1e9) if duration is not None else None,
    )
