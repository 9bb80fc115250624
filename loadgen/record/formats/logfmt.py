"""logfmt lines of any field names (`level=info start=... in=22`): the user says which field is which.

A line without the time's field is some other message, and counts as other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import WRITTEN_FIELD, LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.row_reader import Getter, RowReader
from loadgen.record.settings import RecordSettings

_PAIR = re.compile(r'([A-Za-z_][\w.\-]*)=("(?:[^"\\]|\\.)*"|[^\s"]*)')


class LogfmtFormat:
    """Generic logfmt."""

    def __init__(self, settings: RecordSettings) -> None:
        self._reader = RowReader(settings, _getter)
        self._needed = {settings.time_field, settings.duration_field} - {None, WRITTEN_FIELD}

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(len(_PAIR.findall(line.decode("utf-8", "replace"))) > 2 for line in head[:20])

    def stamp_facts(self) -> StampFacts:
        return self._reader.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        for batch in batches:
            for index, line in enumerate(batch.lines()):
                number = batch.number_of(index)
                row: dict[str, Any] = {
                    key: value.strip('"') for key, value in _PAIR.findall(line.decode("utf-8", "replace"))
                }
                if any(key not in row for key in self._needed):
                    findings.num_other += 1
                    continue
                if batch.written is not None:
                    row[WRITTEN_FIELD] = batch.written[index]
                try:
                    self._reader.add(row, f"{batch.source}:{number}")
                except RecordError:
                    raise
                except ValueError as exc:
                    findings.add_malformed(batch.source, number, str(exc), line)
            yield self._reader.rows.take()
        self._reader.report(findings)


def _getter(name: str) -> Getter:
    return lambda row: row.get(name)
