"""Docker json-file: {"log": "inner\\n", "stream": "stdout", "time": RFC 3339}.

The time is when the daemon read the line. Lines over 16 KiB are several records: they are joined, for each
stream, until `log` ends in a line end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson

from loadgen.record.findings import Findings
from loadgen.record.json_lines import has_keys
from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.split_lines import SplitLines
from loadgen.record.wrappers.wrapper import Unwrapped


class DockerWrapper:
    """Docker json-file records."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, ("log", "stream", "time"))

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        split = SplitLines()
        for batch in batches:
            inner = Unwrapped(batch)
            for index, line in enumerate(batch.lines()):
                number = batch.number_of(index)
                try:
                    record = orjson.loads(line)
                    text: bytes = record["log"].encode("utf-8", "surrogatepass")
                    stream, time = str(record.get("stream")), str(record["time"])
                except (ValueError, TypeError, KeyError, AttributeError):
                    inner.pass_on(index, line, "no Docker json-file record", findings)
                    continue
                if text.endswith(b"\n"):
                    inner.add(split.joined(stream, text), time, number)
                else:
                    split.hold(stream, text, batch, time, number)
            yield inner.batch()
        rest = split.rest()
        if rest is not None:
            yield rest
