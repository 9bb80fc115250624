"""RunRows: the requests of one run as numbers, in the order of its schedule, with no more columns than needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from loadgen.compare.cell import MAX_WINDOWS
from loadgen.compare.laws import Floats
from loadgen.errors import RunError
from loadgen.replay.request_record import OWN_FAULTS, UNDECIDED, Outcome
from loadgen.replay.run_folder import RunFolder
from loadgen.report.goodput import Bound

Mask = npt.NDArray[np.bool_]

_COLUMNS = (
    "trace_row", "copy", "window", "input_tokens_planned", "output_tokens_planned", "planned_ns", "sent_ns",
    "first_token_ns", "first_answer_token_ns", "last_token_ns", "outcome", "output_tokens",
)  # fmt: skip


@dataclass(frozen=True)
class RunRows:
    """All (num_requests,). key: int64, names the request across runs of one schedule; ascending by planned time.

    planned_s, sent_s ...: float64, s from the run's start, NaN for what did not happen. labels: of window_codes.
    """

    key: npt.NDArray[np.int64]
    window_codes: npt.NDArray[np.int32]
    labels: tuple[str, ...]
    outcome_codes: npt.NDArray[np.int32]
    outcomes: tuple[str, ...]
    planned_s: Floats
    sent_s: Floats
    first_s: Floats
    first_answer_s: Floats
    last_s: Floats
    tokens: Floats
    input_tokens: Floats
    planned_tokens: Floats

    @property
    def num_requests(self) -> int:
        return int(self.key.size)

    @cached_property
    def is_ok(self) -> Mask:
        return self._is({Outcome.OK.value})

    @cached_property
    def is_rejected(self) -> Mask:
        return self._is({Outcome.REJECTED.value})

    @cached_property
    def is_decided(self) -> Mask:
        """The target's doing, as in the report: our own faults and what was still running are left out."""
        return ~self._is({outcome.value for outcome in OWN_FAULTS | UNDECIDED})

    def metric(self, name: str) -> Floats:
        """A figure of each request in s, by the definitions of the metric table; NaN for what did not succeed."""
        values = {
            "latency": lambda: self.last_s - self.planned_s,
            "service_latency": lambda: self.last_s - self.sent_s,
            "ttft": lambda: self.first_s - self.planned_s,
            "service_ttft": lambda: self.first_s - self.sent_s,
            "ttfat": lambda: self.first_answer_s - self.planned_s,
            "tpot": lambda: (
                (self.last_s - self.first_s) / np.where(self.tokens >= 2, self.tokens - 1, np.nan)
            ),
        }[name]()
        return np.where(self.is_ok, values, np.nan)

    def is_good(self, bounds: Sequence[Bound]) -> Mask:
        """Succeeded within every bound; a single token has no time between tokens to miss."""
        good = self.is_ok.copy()
        for bound in bounds:
            within = self.metric(bound.metric) <= bound.bound_s
            if bound.metric == "tpot":
                within |= self.tokens == 1
            good &= within
        return good

    def taken(self, places: npt.NDArray[np.int64]) -> RunRows:
        """The rows at `places`."""
        arrays = {
            name: getattr(self, name)[places]
            for name in self.__dataclass_fields__
            if name not in ("labels", "outcomes")
        }
        return RunRows(labels=self.labels, outcomes=self.outcomes, **arrays)

    def _is(self, names: set[str]) -> Mask:
        wanted = np.array([outcome in names for outcome in self.outcomes], dtype=bool)
        return np.asarray(wanted[self.outcome_codes], dtype=bool)


def read_rows(folder: RunFolder) -> RunRows:
    """Read what is compared of a run. Raises RunError where it cannot be read."""
    if folder.requests_path.is_file():
        try:
            table = pq.read_table(folder.requests_path, columns=list(_COLUMNS))
        except (OSError, ValueError, pa.ArrowException) as exc:
            raise RunError(f"{folder.requests_path}: cannot be read ({exc})".splitlines()[0]) from exc
        if missing := set(_COLUMNS) - set(table.column_names):
            raise RunError(f"{folder.requests_path}: has no column {sorted(missing)[0]}")
    else:
        table = folder.read_requests().select(list(_COLUMNS))
    return rows_of(table)


def rows_of(table: pa.Table) -> RunRows:
    """The rows of RequestRecords."""
    key = (_integers(table, "trace_row") << 16) + _integers(table, "copy")
    planned_ns = _integers(table, "planned_ns")
    order = np.lexsort((key, planned_ns))
    window_codes, labels = _codes(table, "window")
    outcome_codes, outcomes = _codes(table, "outcome")
    rows = RunRows(
        key=key,
        window_codes=window_codes,
        labels=labels,
        outcome_codes=outcome_codes,
        outcomes=outcomes,
        planned_s=planned_ns / 1e9,
        sent_s=_floats(table, "sent_ns", 1e9),
        first_s=_floats(table, "first_token_ns", 1e9),
        first_answer_s=_floats(table, "first_answer_token_ns", 1e9),
        last_s=_floats(table, "last_token_ns", 1e9),
        tokens=_floats(table, "output_tokens"),
        input_tokens=_floats(table, "input_tokens_planned"),
        planned_tokens=_floats(table, "output_tokens_planned"),
    )
    return rows if (np.diff(order) == 1).all() else rows.taken(order)


def twins(a: RunRows, b: RunRows) -> tuple[RunRows, RunRows]:
    """The requests that both runs planned, in one order. Runs of one schedule have the same."""
    if np.array_equal(a.key, b.key):
        return a, b
    _, places_a, places_b = np.intersect1d(a.key, b.key, return_indices=True)
    order = np.argsort(a.planned_s[places_a], kind="stable")
    return a.taken(places_a[order]), b.taken(places_b[order])


def window_kinds(labels: Sequence[str]) -> dict[str, str]:
    """The name that each window is compared under: its label, or its kind where there are many."""
    if len(labels) <= MAX_WINDOWS:
        return {label: label for label in labels}
    return {label: label.rpartition("-")[0] or label for label in labels}


def _integers(table: pa.Table, column: str) -> npt.NDArray[np.int64]:
    return np.asarray(table.column(column).to_numpy(), dtype=np.int64)


def _floats(table: pa.Table, column: str, divisor: float = 1.0) -> Floats:
    values = pc.fill_null(pc.cast(table.column(column), pa.float64(), safe=False), np.nan)
    return np.asarray(values.to_numpy(), dtype=np.float64) / divisor


def _codes(table: pa.Table, column: str) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    values = table.column(column)
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    combined = values.unify_dictionaries().combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        combined = combined.chunk(0) if combined.num_chunks else pa.array([], pa.string()).dictionary_encode()
    codes = np.asarray(combined.indices.to_numpy(zero_copy_only=False), dtype=np.int32)
    return codes, tuple(str(value) for value in combined.dictionary.to_pylist())
