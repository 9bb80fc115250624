"""A recording: the requests that a log held, in order of arrival, and how far they can be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from loadgen.durations import format_duration
from loadgen.errors import RecordError
from loadgen.record.arrival_order import ArrivalOrder
from loadgen.record.busiest import BusiestWindow
from loadgen.record.fidelity import Fidelity
from loadgen.record.findings import Findings
from loadgen.record.request_store import ARRIVAL, SESSION_KEY, RequestStore
from loadgen.trace.parquet import writing
from loadgen.trace.schema import INPUT_COLUMNS, LENGTH_COLUMNS, OUTPUT_COLUMNS, SCHEMA
from loadgen.trace.trace import Trace, TraceMetadata

_SECOND_NS = 10**9
# A silence this long, and this many times the mean of the other gaps, looks like a file that is missing.
_SUSPICIOUS_GAP_NS = 60 * 10**9
_SUSPICIOUS_GAP_RATIO = 1000


class Recording:
    """The requests found so far, ready to become a trace; more may be found later while a log is followed.

    metadata: what is known before the rows are seen in order. busiest_ns: keep only the window of this width with
    the most arrivals.
    """

    def __init__(
        self,
        store: RequestStore,
        order: ArrivalOrder,
        findings: Findings,
        metadata: TraceMetadata,
        *,
        busiest_ns: int | None = None,
    ) -> None:
        self._store = store
        self._order = order
        self._findings = findings
        self._metadata = metadata
        self._busiest_ns = busiest_ns

    def write(self, path: Path) -> Fidelity:
        """Write the trace to `path`, whole or not at all, in memory that does not grow with it.

        Raises RecordError without a request, TraceError when the disk refuses.
        """
        figures = _Figures()
        with writing(path) as writer:
            for part in self._parts(figures):
                writer.write(part)
            findings = self._concluded(figures)
            writer.close(self._described(figures, findings))
        return self._fidelity(figures, findings)

    @property
    def trace(self) -> Trace:
        """The trace in memory."""
        figures = _Figures()
        table = pa.concat_tables(list(self._parts(figures)) or [SCHEMA.empty_table()])
        return Trace(table.unify_dictionaries(), self._described(figures, self._concluded(figures)))

    @property
    def fidelity(self) -> Fidelity:
        """How far the trace can be trusted."""
        figures = _Figures()
        for _ in self._parts(figures):
            pass
        return self._fidelity(figures, self._concluded(figures))

    def close(self) -> None:
        """Forget the requests, also those put aside on disk."""
        self._store.close()

    def _parts(self, figures: _Figures) -> Iterator[pa.Table]:
        """The rows of the trace, in its own schema; adds them to `figures`."""
        numbers: dict[int, int] = {}
        for part in self._selected():
            figures.add(part)
            assert figures.first_ns is not None
            yield _trace_rows(part, figures.first_ns, _numbered(part, numbers))

    def _selected(self) -> Iterator[pa.Table]:
        if self._busiest_ns is None:
            yield from self._store.sorted_parts()
            return
        window = BusiestWindow(self._busiest_ns)
        for part in self._store.sorted_parts():
            window.add(part.column(ARRIVAL).to_numpy())
        if window.start_ns is None:
            return
        for part in self._store.sorted_parts():
            arrivals = part.column(ARRIVAL).to_numpy()
            first, last = np.searchsorted(arrivals, [window.start_ns, window.start_ns + self._busiest_ns])
            if first < last:
                yield part.slice(int(first), int(last - first))

    def _concluded(self, figures: _Figures) -> Findings:
        """The findings, with what the rows in order tell."""
        findings = self._findings.copy()
        if self._busiest_ns is not None:
            num_outside = self._store.num_rows - figures.num_rows
            findings.num_other += num_outside
            findings.assume(
                f"kept: the {format_duration(self._busiest_ns / 1e9)} with the most arrivals; "
                f"{num_outside} requests outside count as other"
            )
        if self._order.num_clock_steps:
            findings.warn(
                f"the clock of the log went back {_times(self._order.num_clock_steps)}, by up to "
                f"{format_duration(self._order.largest_step_ns / 1e9)}: requests of then stand among earlier ones"
            )
        settings = self._metadata.recorder["settings"]
        for column, name in settings.get("length_fields", {}).items():
            if column not in figures.known:
                findings.warn(f"no request has a value in {name}, named for {column}: is the name right?")
        if not any(column in figures.known for column in OUTPUT_COLUMNS):
            findings.warn("no output lengths: replay cannot ask for answers of the recorded length")
        if not any(column in figures.known for column in INPUT_COLUMNS):
            findings.warn("no input lengths: arrivals can be looked at, but neither planned nor replayed")
        if figures.largest_gap_ns > max(
            _SUSPICIOUS_GAP_NS, _SUSPICIOUS_GAP_RATIO * figures.mean_other_gap_ns
        ):
            findings.warn(
                f"nothing arrived for {format_duration(figures.largest_gap_ns / 1e9)}, from "
                f"{format_duration(figures.gap_after_s)} after the first request: is a file of the log missing?"
            )
        return findings

    def _described(self, figures: _Figures, findings: Findings) -> TraceMetadata:
        metadata = self._metadata
        counts = {
            "lines": findings.num_lines,
            "requests": figures.num_rows,
            "other": findings.num_other,
            "malformed": findings.num_malformed,
            "duplicates": findings.num_duplicates,
            "out_of_order": self._order.num_out_of_order,
        }
        recorder = {**metadata.recorder, "assumptions": list(findings.assumptions)}
        return replace(
            metadata,
            origin_unix_ns=None if metadata.origin_unix_ns is None else figures.first_ns,
            counts=counts,
            recorder=recorder,
            resolution_ns=self._resolution_ns,
            warnings=tuple(findings.warnings),
        )

    @property
    def _resolution_ns(self) -> int | None:
        if self._metadata.resolution_ns is not None:
            return self._metadata.resolution_ns
        return self._order.finest_step_ns

    def _fidelity(self, figures: _Figures, findings: Findings) -> Fidelity:
        if figures.first_ns is None:
            raise RecordError("no request was found")
        span_s = (figures.last_ns - figures.first_ns) / 1e9
        return Fidelity(
            format_name=self._metadata.recorder["format"],
            num_lines=findings.num_lines,
            num_requests=figures.num_rows,
            num_other=findings.num_other,
            num_malformed=findings.num_malformed,
            num_duplicates=findings.num_duplicates,
            num_out_of_order=self._order.num_out_of_order,
            num_clock_steps=self._order.num_clock_steps,
            span_s=span_s,
            rate_per_s=(figures.num_rows - 1) / span_s if span_s > 0 else None,
            peak_1s=figures.peak.count,
            largest_gap_s=figures.largest_gap_ns / 1e9 if figures.num_rows > 1 else None,
            resolution_ns=self._resolution_ns,
            missing={
                column: 1 - figures.known[column] / figures.num_rows
                for column in (*LENGTH_COLUMNS, "duration_ns")
                if column in figures.known
            },
            malformed=tuple(findings.malformed),
            assumptions=tuple(findings.assumptions),
            warnings=tuple(findings.warnings),
        )


class _Figures:
    """What the rows tell as they go by in order of arrival."""

    def __init__(self) -> None:
        self.num_rows = 0
        self.first_ns: int | None = None
        self.last_ns = 0
        self.largest_gap_ns = 0
        self.gap_after_s = 0.0
        self.known: dict[str, int] = {}
        self.peak = BusiestWindow(_SECOND_NS)

    @property
    def mean_other_gap_ns(self) -> float:
        """The mean of the gaps but for the largest; infinite with less than two gaps."""
        if self.first_ns is None or self.num_rows < 3:
            return math.inf
        return (self.last_ns - self.first_ns - self.largest_gap_ns) / (self.num_rows - 2)

    def add(self, part: pa.Table) -> None:
        arrivals = np.asarray(part.column(ARRIVAL).to_numpy(), dtype=np.int64)
        if self.first_ns is None:
            self.first_ns = self.last_ns = int(arrivals[0])
        gaps_ns = np.diff(arrivals, prepend=self.last_ns)
        widest = int(np.argmax(gaps_ns))
        if gaps_ns[widest] > self.largest_gap_ns:
            self.largest_gap_ns = int(gaps_ns[widest])
            self.gap_after_s = (int(arrivals[widest]) - self.largest_gap_ns - self.first_ns) / 1e9
        self.last_ns = int(arrivals[-1])
        self.num_rows += part.num_rows
        self.peak.add(arrivals)
        for column in (*LENGTH_COLUMNS, "duration_ns"):
            if column in part.schema.names:
                num_known = part.num_rows - part.column(column).null_count
                if num_known:
                    self.known[column] = self.known.get(column, 0) + num_known


def _numbered(part: pa.Table, numbers: dict[int, int]) -> Mapping[int, int]:
    """Dense numbers of session keys: 0 for the one that came first; those of `part` are added."""
    if SESSION_KEY in part.schema.names:
        for key in part.column(SESSION_KEY).drop_null().unique().to_pylist():
            numbers.setdefault(key, len(numbers))
    return numbers


def _trace_rows(part: pa.Table, origin_ns: int, sessions: Mapping[int, int]) -> pa.Table:
    """A part in the trace's own schema: arrivals from `origin_ns` on, keys of sessions as their numbers."""
    arrays = []
    for field in SCHEMA:
        if field.name == "arrival_ns":
            arrays.append(pa.array(np.asarray(part.column(ARRIVAL).to_numpy()) - origin_ns))
        elif field.name == "session" and SESSION_KEY in part.schema.names:
            coded = part.column(SESSION_KEY).combine_chunks().dictionary_encode()
            numbers = pa.array([sessions[key] for key in coded.dictionary.to_pylist()], field.type)
            arrays.append(numbers.take(coded.indices))
        elif field.name in part.schema.names:
            arrays.append(part.column(field.name))
        else:
            arrays.append(pa.nulls(part.num_rows, field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
