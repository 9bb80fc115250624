"""Loki's entries as `logcli query -o jsonl` prints them: {"labels": {...}, "line": "inner", "timestamp": RFC 3339}.

Newest first, as long as logcli is not told `--forward`: entries are put in order, file by file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import orjson

from loadgen.record.findings import Findings
from loadgen.record.json_lines import has_keys
from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.wrapper import Unwrapped
from loadgen.trace.moments import calendar_ns

_Entry = tuple[int, bytes, str, int]


class LogcliWrapper:
    """Entries of logcli."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, ("labels", "line", "timestamp"))

    @staticmethod
    def unwrap(batches: Iterable[LineBatch], findings: Findings) -> Iterator[LineBatch]:
        first: LineBatch | None = None
        entries: list[_Entry] = []
        for batch in batches:
            if first is not None and batch.file_index != first.file_index:
                yield _oldest_first(first, entries)
                first, entries = None, []
            first = first or batch
            for index, line in enumerate(batch.lines()):
                number = batch.number_of(index)
                try:
                    entry = orjson.loads(line)
                    written, text = entry["timestamp"], entry["line"].encode("utf-8", "surrogatepass")
                    ns, offset_ns = calendar_ns(written)
                except (ValueError, TypeError, LookupError, AttributeError):
                    findings.add_malformed(batch.source, number, "no entry of logcli", line)
                else:
                    entries.append((ns - (offset_ns or 0), text, written, number))
        if first is not None:
            yield _oldest_first(first, entries)


def _oldest_first(outer: LineBatch, entries: list[_Entry]) -> LineBatch:
    inner = Unwrapped(outer)
    for _, line, written, number in sorted(entries, key=lambda entry: entry[0]):
        inner.add(line, written, number)
    return inner.batch()
