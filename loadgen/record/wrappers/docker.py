"""Docker json-file: {"log": "inner\\n", "stream": "stdout", "time": RFC 3339}.

The time is when the daemon read the line. Lines over 16 KiB are several records: they are joined, for each
stream, until `log` ends in a line end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson

from loadgen.record.findings import Findings
from loadgen.record.json_records import has_keys
from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.wrapper import Unwrapped


class DockerWrapper:
    """Docker json-file records."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, ("log", "stream", "time"))

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        parts: dict[object, str] = {}
        for batch in batches:
            inner = Unwrapped(batch)
            for number, line in enumerate(batch.lines(), start=batch.first_line):
                try:
                    record = orjson.loads(line)
                    text, stream, time = record["log"], record.get("stream"), record["time"]
                    joined = parts.pop(stream, "") + text
                except (ValueError, TypeError, KeyError, AttributeError):
                    findings.add_malformed(batch.source, number, "no Docker json-file record", line)
                    continue
                if joined.endswith("\n"):
                    inner.add(joined.encode("utf-8", "surrogatepass"), str(time), number)
                else:
                    parts[stream] = joined
            yield inner.batch()
