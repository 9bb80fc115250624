"""vLLM server logs: "Received request" is the arrival, joined by id with "Generated response".

Source: vllm/entrypoints/logger.py. Needs --enable-log-requests, and --enable-log-outputs for answers. The stamp
is MM-DD HH:MM:SS: no year and no zone, so both have to be told, and 1 s. Lengths are the numbers of
token ids; newer versions log them at DEBUG only. --max-log-len cuts them, so a length that many requests
share at the top is a lower bound. The access lines of uvicorn carry no time and count as other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import LineBatch
from loadgen.record.prefix_blocks import PrefixBlocks
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings
from loadgen.record.zone import ZoneClock, parse_zone
from loadgen.trace.moments import calendar_ns

_LINE = re.compile(
    rb"^(?:\x1b\[[0-9;]*m)*(?:\(\w+ pid=\d+\) )?(?:\x1b\[[0-9;]*m)*(?:INFO|DEBUG) (\d\d-\d\d) (\d\d:\d\d:\d\d) "
    rb"\[[^\]]*\] (?:\x1b\[[0-9;]*m)*"
    rb"(Received request|Request|Generated response) ([^\s:]+)(?:( details)?: | \((streaming complete)\): )"
)
_HALF_YEAR_NS = 183 * 86_400 * 10**9
_SHARE_AT_TOP = 0.1


@dataclass(slots=True)
class _Request:
    """One request, as far as its lines were seen."""

    arrival_ns: int
    input_tokens: int | None = None
    prefix_blocks: list[int] | None = None
    output_tokens: int | None = None
    stream: bool | None = None


class VllmFormat:
    """vLLM server log lines."""

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
        requests: dict[bytes, _Request] = {}
        year, latest_ns = self._year, 0
        for batch in batches:
            for index, line in enumerate(batch.lines()):
                found = _LINE.match(line)
                if found is None:
                    findings.num_other += 1
                    continue
                day, time, kind, name, _, streamed = found.groups()
                if kind != b"Received request":
                    self._join(requests.get(name), kind, line, streamed is not None, findings)
                    continue
                try:
                    calendar, _ = calendar_ns(f"{year}-{day.decode()} {time.decode()}")
                    if calendar < latest_ns - _HALF_YEAR_NS:
                        year += 1
                        calendar, _ = calendar_ns(f"{year}-{day.decode()} {time.decode()}")
                except ValueError as exc:
                    findings.add_malformed(batch.source, batch.number_of(index), str(exc), line)
                    continue
                latest_ns = max(latest_ns, calendar)
                requests[name] = _Request(clock.unix_ns(calendar))
                self._add_prompt(requests[name], line)
        yield _batch(list(requests.values()))
        _warn_of_cuts(list(requests.values()), findings)

    def _join(
        self, request: _Request | None, kind: bytes, line: bytes, streamed: bool, findings: Findings
    ) -> None:
        """Add what a later line tells of a request; lines of requests that are not in the log count as other."""
        if request is None:
            findings.num_other += 1
        elif kind == b"Request":
            self._add_prompt(request, line)
            findings.num_other += 1
        else:
            ids = _ids(line, b"output_token_ids: [")
            request.output_tokens = None if ids is None else len(ids)
            request.stream = streamed

    def _add_prompt(self, request: _Request, line: bytes) -> None:
        ids = _ids(line, b"prompt_token_ids: [")
        if ids is None:
            return
        request.input_tokens = len(ids)
        if self._blocks is not None:
            request.prefix_blocks = self._blocks.of_token_ids([int(token) for token in ids])


def _ids(line: bytes, label: bytes) -> list[bytes] | None:
    """The ids of the last list of this label: a prompt may hold the label, but stands before it. None for none."""
    start = line.rfind(label)
    end = line.find(b"]", start)
    if start < 0 or end < 0:
        return None
    ids = line[start + len(label) : end].strip()
    return ids.split(b",") if ids else None


def _batch(requests: list[_Request]) -> RequestBatch:
    return RequestBatch(
        np.array([request.arrival_ns for request in requests], dtype=np.int64),
        {
            "input_tokens": [request.input_tokens for request in requests],
            "output_tokens": [request.output_tokens for request in requests],
            "stream": [request.stream for request in requests],
            **(
                {"prefix_blocks": [request.prefix_blocks for request in requests]}
                if any(request.prefix_blocks for request in requests)
                else {}
            ),
        },
    )


def _warn_of_cuts(requests: list[_Request], findings: Findings) -> None:
    lengths = [request.input_tokens for request in requests if request.input_tokens is not None]
    if len(lengths) >= 20 and lengths.count(max(lengths)) > _SHARE_AT_TOP * len(lengths):
        findings.warn(
            f"{lengths.count(max(lengths))} requests have exactly {max(lengths)} input tokens, the most of all: "
            "--max-log-len may have cut them"
        )
