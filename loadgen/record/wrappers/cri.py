"""Kubernetes CRI: `2026-10-25T00:59:59.704511544Z stdout F inner`.

The time is when the runtime read the line. P marks a part of a long line, F the last: they are joined for
each stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.wrapper import Unwrapped

_LINE = re.compile(
    rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([PF])[^ ]* ?(.*)",
    re.DOTALL,
)


class CriWrapper:
    """Kubernetes CRI log lines."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(_LINE.match(line) for line in head[:20])

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        parts: dict[bytes, bytes] = {}
        for batch in batches:
            inner = Unwrapped(batch)
            for number, line in enumerate(batch.lines(), start=batch.first_line):
                found = _LINE.match(line)
                if found is None:
                    findings.add_malformed(batch.source, number, "no CRI log line", line)
                    continue
                time, stream, mark, text = found.groups()
                joined = parts.pop(stream, b"") + text
                if mark == b"F":
                    inner.add(joined, time.decode(), number)
                else:
                    parts[stream] = joined
            yield inner.batch()
