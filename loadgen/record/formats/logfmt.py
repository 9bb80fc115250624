"""logfmt lines of any field names (`level=info start=... in=22`): the user says which field is which.

A line without the time's field is some other message, and counts as other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import WRITTEN_FIELD, LineBatch
from loadgen.record.named_fields import NamedFields
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings

# Not begun within a word: else a long word would be tried from each of its characters.
_PAIR = re.compile(r'(?<![\w.\-])([A-Za-z_][\w.\-]*)=("(?:[^"\\]|\\.)*"|[^\s"]*)')


class LogfmtFormat:
    """Generic logfmt."""

    needs = "a request is a line that has the fields of --time and --duration-field"

    def __init__(self, settings: RecordSettings) -> None:
        self._fields = NamedFields(settings)
        self._needed = {settings.time_field, settings.duration_field} - {None, WRITTEN_FIELD}

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(len(_PAIR.findall(line.decode("utf-8", "replace"))) > 2 for line in head[:20])

    @staticmethod
    def fields_of(head: Sequence[bytes]) -> list[str]:
        """The keys of the first line that has some."""
        found = ([key for key, _ in _PAIR.findall(line.decode("utf-8", "replace"))] for line in head[:20])
        return next((keys for keys in found if len(keys) > 1), [])

    def stamp_facts(self) -> StampFacts:
        return self._fields.stamp_facts()

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        for batch in batches:
            self._fields.check(batch)
            rows: list[dict[str, str]] = []
            numbers: list[int] = []
            for index, line in enumerate(batch.lines()):
                row = {key: value.strip('"') for key, value in _PAIR.findall(line.decode("utf-8", "replace"))}
                if any(key not in row for key in self._needed):
                    continue
                if batch.written is not None:
                    row[WRITTEN_FIELD] = batch.written[index]
                rows.append(row)
                numbers.append(index)
            findings.num_other += batch.num_lines - len(rows)
            columns = {name: [row.get(name) for row in rows] for name in self._fields.fields}
            requests, faults = self._fields.read(columns, batch.places(numbers))
            findings.add_faults(batch, numbers, faults)
            yield requests
        self._fields.report(findings)
