"""syslog lines: RFC 5424, RFC 3164, and the form with an ISO stamp that rsyslog writes to files.

    <134>1 2026-10-25T00:59:59.704Z host app 814 - - inner
    <134>Oct 25 00:59:59 host app[814]: inner
    2026-10-25T02:59:59.704512+02:00 host app[814]: inner

Source: RFC 5424 section 6, RFC 3164 section 4. The time is when the line was logged. RFC 3164 has no year and no
zone: where another wrapper carried such a line, that one's moment is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.wrapper import Unwrapped

_ISO = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
_VERSION_1 = re.compile(
    rb"(?:<\d{1,3}>)?1 (" + _ISO + rb"|-) \S{1,255} \S{1,48} \S{1,128} \S{1,32} "
    rb'(?:-|(?:\[[^\]"]*(?:"(?:[^"\\]|\\.)*"[^\]"]*)*\])+)(?: (?:\xef\xbb\xbf)?(.*))?$',
    re.DOTALL,
)
_OLD = re.compile(
    rb"(?:<\d{1,3}>)?(?:([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)|(" + _ISO + rb")) "
    # A word such as INFO in the host's place is an application's own line.
    rb"(?!(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b)[\w.:%-]+ [\w./@+()-]+(?:\[[^\]\s]*\])?: ?(.*)$",
    re.DOTALL,
)
_ENOUGH = 0.5


class SyslogWrapper:
    """syslog lines of either RFC."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        lines = [line for line in head[:20] if line.strip()]
        num_found = sum(bool(_VERSION_1.match(line) or _OLD.match(line)) for line in lines)
        return num_found > _ENOUGH * len(lines)

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        for batch in batches:
            inner = Unwrapped(batch)
            for index, line in enumerate(batch.lines()):
                number = batch.number_of(index)
                carried = batch.written[index] if batch.written is not None else None
                if found := _VERSION_1.match(line):
                    stamp, text = found[1].decode(), found[2] or b""
                    inner.add(text, carried or stamp if stamp == "-" else stamp, number)
                elif found := _OLD.match(line):
                    old, stamp_iso, text = found.groups()
                    written = stamp_iso.decode() if stamp_iso else carried or old.decode()
                    inner.add(text, written, number)
                else:
                    inner.pass_on(index, line, "no syslog line", findings)
            yield inner.batch()
