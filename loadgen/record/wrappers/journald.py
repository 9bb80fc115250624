"""journald as JSON (`journalctl -o json`): MESSAGE, with __REALTIME_TIMESTAMP in us since the epoch.

MESSAGE is an array of bytes where it is no clean text, and can be null: then there is no line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson

from loadgen.record.findings import Findings
from loadgen.record.json_lines import has_keys
from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.wrapper import Unwrapped


class JournaldWrapper:
    """journald JSON records."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, ("__REALTIME_TIMESTAMP", "MESSAGE"))

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        for batch in batches:
            inner = Unwrapped(batch)
            for index, line in enumerate(batch.lines()):
                try:
                    record = orjson.loads(line)
                    text, time = _text(record.get("MESSAGE")), record["__REALTIME_TIMESTAMP"]
                except (ValueError, TypeError, KeyError, AttributeError):
                    inner.pass_on(index, line, "no journald record", findings)
                    continue
                if text is None:
                    findings.num_other += 1
                else:
                    inner.add(text, str(time), batch.number_of(index))
            yield inner.batch()


def _text(message: object) -> bytes | None:
    if isinstance(message, str):
        return message.encode("utf-8", "surrogatepass")
    if isinstance(message, list) and all(isinstance(part, str) for part in message):
        return " ".join(message).encode()
    if isinstance(message, list):
        return bytes(message)
    return None
