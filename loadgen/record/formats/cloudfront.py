"""CloudFront standard logs: date and time are the completion, 1 s, so arrival = time - time-taken.

Source: docs.aws.amazon.com, CloudFront standard logging, file fields. Tab-separated, UTC; the line `#Fields:` at
the start of each file names the columns. `time` is when the server finished responding; time-taken is in seconds
to the ms, from the request's receipt to the last byte. cs-bytes and sc-bytes are with headers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from loadgen.errors import RecordError
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.request_filter import RequestFilter
from loadgen.record.settings import RecordSettings
from loadgen.record.stamp_reader import StampReader
from loadgen.record.value_columns import counts, durations_ns, names, statuses

_FIELDS = b"#Fields:"
_NEEDED = ("date", "time", "time-taken", "cs-method", "cs-uri-stem")
_READ = (*_NEEDED, "cs-bytes", "sc-bytes", "sc-status")


class CloudfrontFormat:
    """CloudFront standard log lines."""

    # The names of the columns stand in the first lines of a file alone.
    order_matters = True

    def __init__(self, settings: RecordSettings) -> None:
        self._filter = RequestFilter(settings.path_prefixes)
        self._stamps = StampReader("iso", "UTC")

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return any(line.startswith(_FIELDS) and b" x-edge-" in line for line in head[:20])

    def stamp_facts(self) -> StampFacts:
        return StampFacts("completion", "date and time - time-taken", resolution_ns=10**9)

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.assume(self._filter.description)
        findings.warn("stamps have a resolution of 1 s: bursts within a second are lost")
        fields: list[str] = []
        for batch in batches:
            numbers: list[int] = []
            rows: list[dict[str, str]] = []
            for index, line in enumerate(batch.lines()):
                if line.startswith(b"#"):
                    findings.num_other += 1
                    if line.startswith(_FIELDS):
                        fields = line.removeprefix(_FIELDS).decode("utf-8", "replace").split()
                        _check(fields, batch.source)
                    continue
                cells = line.decode("utf-8", "replace").split("\t")
                if not fields or len(cells) != len(fields):
                    reason = (
                        f"{len(cells)} cells, expected {len(fields)}" if fields else "no #Fields before it"
                    )
                    findings.add_malformed(batch.source, batch.number_of(index), reason, line)
                    continue
                row = dict(zip(fields, cells, strict=True))
                if self._filter.endpoint_of(row["cs-method"], row["cs-uri-stem"]) is None:
                    findings.num_other += 1
                    continue
                numbers.append(index)
                rows.append(row)
            yield self._requests(batch, numbers, rows, findings)

    def _requests(
        self, batch: LineBatch, numbers: list[int], rows: list[dict[str, str]], findings: Findings
    ) -> RequestBatch:
        values = {name: [row.get(name) for row in rows] for name in _READ}
        stamps = [f"{row['date']}T{row['time']}" for row in rows]
        end_ns, faults = self._stamps.column(stamps, batch.places(numbers))
        duration_ns, of_duration = durations_ns(values["time-taken"], 10**9)
        missing = np.flatnonzero(np.asarray(duration_ns.is_null())).tolist()
        input_bytes, of_input = counts(values["cs-bytes"])
        output_bytes, of_output = counts(values["sc-bytes"])
        faults = dict.fromkeys(missing, "no time-taken") | of_input | of_output | of_duration | faults
        findings.add_faults(batch, numbers, faults)
        return RequestBatch(
            end_ns - np.asarray(duration_ns.fill_null(0)),
            {
                "duration_ns": duration_ns,
                "input_bytes": input_bytes,
                "output_bytes": output_bytes,
                "status": statuses(values["sc-status"]),
                "endpoint": names(
                    [self._filter.endpoint_of(row["cs-method"], row["cs-uri-stem"]) for row in rows]
                ),
            },
        ).without(faults)


def _check(fields: Sequence[str], source: str) -> None:
    missing = [name for name in _NEEDED if name not in fields]
    if missing:
        raise RecordError(
            f"{source}: the fields {', '.join(missing)} are not logged, so arrivals cannot be had",
            hint="select them in the distribution's logging settings",
        )
