"""Kubernetes CRI: `2026-10-25T00:59:59.704511544Z stdout F inner`.

The time is when the runtime read the line. P marks a part of a long line, F the last: they are joined for
each stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.split_lines import SplitLines
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
        split = SplitLines()
        for batch in batches:
            inner = Unwrapped(batch)
            for index, line in enumerate(batch.lines()):
                found = _LINE.match(line)
                if found is None:
                    inner.pass_on(index, line, "no CRI log line", findings)
                    continue
                time, stream, number = found[1].decode(), found[2].decode(), batch.number_of(index)
                if found[3] == b"F":
                    inner.add(split.joined(stream, found[4]), time, number)
                else:
                    split.hold(stream, found[4], batch, time, number)
            yield inner.batch()
        rest = split.rest()
        if rest is not None:
            yield rest
