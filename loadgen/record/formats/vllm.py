"""vLLM server logs: "Received request" is the arrival, joined by id with "Generated response".

Source: vllm/entrypoints/logger.py. Needs --enable-log-requests, and --enable-log-outputs for answers. The stamp
is MM-DD HH:MM:SS: no year and no zone, so both have to be told, and 1 s. Lengths are the numbers of
token ids; newer versions log them at DEBUG only. --max-log-len cuts them, so a length that many requests
share at the top is a lower bound. The access lines of uvicorn carry no time and count as other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.formats.source_prefix import SOURCE_PREFIX
from loadgen.record.joined_requests import JoinedRequest, JoinedRequests
from loadgen.record.line_batch import LineBatch
from loadgen.record.prefix_blocks import PrefixBlocks
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings
from loadgen.record.year import YearClock
from loadgen.record.zone import ZoneClock, parse_zone
from loadgen.trace.moments import calendar_ns

# Colours may stand before and behind each word of the prefix.
_COLOUR = rb"(?:\x1b\[[0-9;]*m)*"
_LINE = re.compile(
    rb"^%(prefix)s%(c)s(?:\(\w+ pid=\d+\)%(c)s %(c)s)?(?:INFO|DEBUG)%(c)s %(c)s(\d\d-\d\d) (\d\d:\d\d:\d\d)%(c)s "
    # Older versions write the place as `async_llm_engine.py:174]`.
    rb"%(c)s\[?[\w./]+:\d+\]%(c)s %(c)s"
    % {b"c": _COLOUR, b"prefix": SOURCE_PREFIX}
    + rb"(Received request|Request|Generated response) ([^\s:]+)(?:( details)?: | \((streaming complete)\): )"
)
_SHARE_AT_TOP = 0.1


class VllmFormat:
    """vLLM server log lines."""

    needs = "vLLM logs requests with --enable-log-requests"

    def __init__(self, settings: RecordSettings) -> None:
        self._zone = settings.zone
        self._year = settings.year
        self._blocks = None if settings.prefix_salt is None else PrefixBlocks(settings.prefix_salt)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(_LINE.match(line) for line in head)

    def stamp_facts(self) -> StampFacts:
        return StampFacts("arrival", "the time of 'Received request'", resolution_ns=10**9, zone=self._zone)

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        if self._zone is None or self._year is None:
            raise RecordError(
                "vLLM's stamps carry no year and no zone", hint="give both: --year 2026 --zone Europe/Berlin"
            )
        findings.assume(f"stamps are of {self._year}, in {self._zone}")
        findings.warn("stamps have a resolution of 1 s: bursts within a second are lost")
        clock = ZoneClock(parse_zone(self._zone))
        requests = JoinedRequests()
        lengths: Counter[int] = Counter()
        years = YearClock(self._year)
        for batch in batches:
            for index, line in enumerate(batch.lines()):
                found = _LINE.match(line)
                if found is None:
                    findings.num_other += 1
                    continue
                day, time, kind, name, _, streamed = found.groups()
                if kind != b"Received request":
                    request = requests.find(name)
                    if request is None or kind == b"Request":
                        findings.num_other += 1
                    if request is not None and kind == b"Request":
                        self._add_prompt(request, line, lengths)
                    elif request is not None:
                        request.output_tokens = _num_ids(line)
                        request.stream = streamed is not None
                        requests.finish(request)
                    continue
                try:
                    rest = f"{day.decode()} {time.decode()}"
                    calendar, _ = years.calendar_ns(partial(_calendar, rest))
                except ValueError as exc:
                    findings.add_malformed(batch.source, batch.number_of(index), str(exc), line)
                    continue
                self._add_prompt(requests.begin(name, clock.unix_ns(calendar)), line, lengths)
            yield requests.take()
        yield requests.take(is_end=True)
        _warn_of_lengths(lengths, findings)

    def _add_prompt(self, request: JoinedRequest, line: bytes, lengths: Counter[int]) -> None:
        ids = _ids(line, b"prompt_token_ids: [")
        if ids is None:
            return
        request.input_tokens = len(ids)
        lengths[len(ids)] += 1
        if self._blocks is not None:
            request.prefix_blocks = self._blocks.of_token_ids([int(token) for token in ids])


def _calendar(rest: str, year: int) -> tuple[int, int | None]:
    return calendar_ns(f"{year}-{rest}")


def _ids(line: bytes, label: bytes) -> list[bytes] | None:
    """The ids of the last list of this label: a prompt may hold the label, but stands before it. None for none."""
    start = line.rfind(label)
    end = line.find(b"]", start)
    if start < 0 or end < 0:
        return None
    ids = line[start + len(label) : end].strip()
    return ids.split(b",") if ids else None


def _num_ids(line: bytes) -> int | None:
    ids = _ids(line, b"output_token_ids: [")
    return None if ids is None else len(ids)


def _warn_of_lengths(lengths: Counter[int], findings: Findings) -> None:
    num_known = lengths.total()
    if not num_known:
        findings.warn("no token ids are logged: newer versions do so at VLLM_LOGGING_LEVEL=DEBUG only")
    if num_known >= 20 and lengths[max(lengths)] > _SHARE_AT_TOP * num_known:
        findings.warn(
            f"{lengths[max(lengths)]} requests have exactly {max(lengths)} input tokens, the most of all: "
            "--max-log-len may have cut them"
        )
