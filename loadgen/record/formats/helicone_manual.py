"""What Helicone's manual logger sends: timing.startTime is the arrival, in whole seconds and milliseconds apart.

    {"providerRequest": {"json": ...}, "providerResponse": {"json": ..., "status": 200},
     "timing": {"startTime": {"seconds": 1792889998, "milliseconds": 201}, "endTime": {...}}}

Source: docs.helicone.ai, manual logger. Tokens are those of the provider's answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.json_columns import JsonColumnReader
from loadgen.record.json_lines import has_keys
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings
from loadgen.record.value_columns import Faults, Values, counts, flags, names, statuses

_KEYS = ("providerRequest", "timing")
_START, _END = "timing.startTime", "timing.endTime"
_USAGE = "providerResponse.json.usage"
_LENGTHS = {
    "input_tokens": (f"{_USAGE}.prompt_tokens", f"{_USAGE}.input_tokens"),
    "output_tokens": (f"{_USAGE}.completion_tokens", f"{_USAGE}.output_tokens"),
}
_OTHERS = {
    "status": ("providerResponse.status", statuses),
    "model": ("providerRequest.json.model", names),
    "stream": ("providerRequest.json.stream", flags),
}


class HeliconeManualFormat:
    """Helicone manual log lines."""

    needs = f"a request has the fields {' and '.join(_KEYS)}"

    def __init__(self, settings: RecordSettings) -> None:
        moments = [f"{moment}.{part}" for moment in (_START, _END) for part in ("seconds", "milliseconds")]
        paths = [path for of_length in _LENGTHS.values() for path in of_length]
        self._columns = JsonColumnReader(
            [*moments, *paths, *(path for path, _ in _OTHERS.values())], required=_KEYS
        )

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        return has_keys(head, _KEYS)

    @property
    def order_matters(self) -> bool:
        """Whether lines have to be read in their order, by one process."""
        return False

    def stamp_facts(self) -> StampFacts:
        return StampFacts("arrival", "timing.startTime as it stands", resolution_ns=10**6)

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        for batch in batches:
            columns = self._columns.read(batch)
            values = columns.values
            start_ns = _moments_ns(values[f"{_START}.seconds"], values[f"{_START}.milliseconds"])
            end_ns = _moments_ns(values[f"{_END}.seconds"], values[f"{_END}.milliseconds"])
            missing = np.flatnonzero(np.asarray(start_ns.is_null())).tolist()
            faults: Faults = dict.fromkeys(missing, "no timing.startTime of whole seconds and milliseconds")
            requests = {
                "duration_ns": pc.max_element_wise(pc.subtract(end_ns, start_ns), 0, skip_nulls=False)
            }
            for column, (path, other) in _LENGTHS.items():
                first, of_first = counts(values[path])
                second, of_second = counts(values[other])
                requests[column] = pc.coalesce(first, second)
                faults = of_first | of_second | faults
            for column, (path, read) in _OTHERS.items():
                requests[column] = read(values[path])
            findings.num_other += batch.num_lines - len(columns.numbers) - len(columns.faults)
            findings.add_faults(batch, columns.numbers, faults, columns.faults)
            yield RequestBatch(np.asarray(start_ns.fill_null(0)), requests).without(faults)


def _moments_ns(seconds: Values, millis: Values) -> pa.Array:
    """int64 unix ns, null where a part is missing or no whole number."""
    return pa.array(
        [
            whole * 10**9 + rest * 10**6
            if type(whole) is int and type(rest) is int and 0 <= rest < 1000 and 0 < whole < 4 * 10**9
            else None
            for whole, rest in zip(seconds, millis, strict=True)
        ],
        pa.int64(),
    )
