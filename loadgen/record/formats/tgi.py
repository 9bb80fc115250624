"""TGI's log, JSON or text: timestamp is the completion, so arrival = timestamp - total_time of the span.

Source: router/src/server.rs and logging.rs of text-generation-inference. Times are Rust's: 1.503s, 21.4ms,
412.5µs. The log holds no token counts; time_per_token is inference_time over the generated tokens, which
gives their number back. How long the input was stands nowhere. Failures are logged without times and count as
other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.formats.tgi_text import TgiTextColumns, is_text_log
from loadgen.record.json_columns import JsonColumnReader
from loadgen.record.json_lines import has_keys
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.settings import RecordSettings
from loadgen.record.stamp_reader import StampReader
from loadgen.record.value_columns import Values, durations_ns

_PATHS = ("timestamp", "span.name", "span.total_time", "span.inference_time", "span.time_per_token")
_REQUIRED = ("timestamp", "level")
_IS_STREAM = {"generate": False, "generate_stream": True}


class TgiFormat:
    """TGI's lines."""

    needs = "TGI logs the times of requests that succeed"

    def __init__(self, settings: RecordSettings) -> None:
        self._columns: JsonColumnReader | TgiTextColumns | None = None
        self._stamps = StampReader("iso", settings.zone)

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        # The first lines are of the start; any of them names the program.
        is_json = has_keys(head, ("timestamp", "level", "target"))
        return is_text_log(head) or (is_json and any(b"text_generation_router" in line for line in head))

    @property
    def order_matters(self) -> bool:
        """Whether lines have to be read in their order, by one process."""
        return self._stamps.order_matters

    def stamp_facts(self) -> StampFacts:
        return StampFacts(
            "completion", "timestamp - total_time", resolution_ns=1000, zone=self._stamps.zone_used
        )

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.assume("output_tokens are inference_time / time_per_token, rounded")
        for batch in batches:
            if self._columns is None and batch.data:
                is_json = any(line.startswith(b"{") for line in batch.lines())
                self._columns = JsonColumnReader(_PATHS, required=_REQUIRED) if is_json else TgiTextColumns()
            columns = (self._columns or TgiTextColumns()).read(batch)
            done = [row for row, took in enumerate(columns.values["span.total_time"]) if took is not None]
            numbers = [columns.numbers[row] for row in done]
            values = {path: [columns.values[path][row] for row in done] for path in _PATHS}
            end_ns, faults = self._stamps.column(values["timestamp"], batch.places(numbers))
            duration_ns, of_duration = durations_ns(values["span.total_time"], 0)
            faults = of_duration | faults
            findings.num_other += batch.num_lines - len(done) - len(columns.faults)
            findings.add_faults(batch, numbers, faults, columns.faults)
            yield RequestBatch(
                end_ns - np.asarray(duration_ns.fill_null(0)),
                {
                    "duration_ns": duration_ns,
                    "output_tokens": _num_generated(
                        values["span.inference_time"], values["span.time_per_token"]
                    ),
                    "stream": pa.array(
                        [_IS_STREAM.get(str(name)) for name in values["span.name"]], pa.bool_()
                    ),
                },
            ).without(faults)
        self._stamps.report(findings)


def _num_generated(inference: Values, per_token: Values) -> pa.Array:
    """int32, null where a time is missing or none."""
    whole_ns, one_ns = durations_ns(inference, 0)[0].to_pylist(), durations_ns(per_token, 0)[0].to_pylist()
    return pa.array(
        [
            None if whole is None or not one or whole / one > 2**31 - 1 else round(whole / one)
            for whole, one in zip(whole_ns, one_ns, strict=True)
        ],
        pa.int32(),
    )
