"""Observations: the records of a run as numbers, derived once; NaN where a record has no such moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.replay.request_record import OWN_FAULTS, SERVER_STAGES, UNDECIDED, Outcome
from loadgen.report.figures import Floats

Mask = npt.NDArray[np.bool_]

# Records whose token events are laid out in memory at once; an answer may have thousands of them.
_PART = 1 << 16
# What the figures of one window are made of.
_MEASURED = (
    "planned_ns", "dispatched_ns", "sent_ns", "first_token_ns", "first_answer_token_ns", "last_token_ns", "outcome",
    "output_tokens", "chunk_gap_us", "num_chunks", "num_coalesced",
    *(f"server_{stage}_us" for stage in SERVER_STAGES), "server_mean_batch",
)  # fmt: skip


@dataclass(frozen=True)
class Observations:
    """Durations in seconds, float64 (num_records,), in the records' order. Failures have no latency."""

    records: pa.Table

    def seconds(self, column: str) -> Floats:
        """A moment or duration in s; NaN for null. Columns end in _ns or _us."""
        scale = 1e9 if column.endswith("_ns") else 1e6
        values = pc.cast(self.records.column(column), pa.float64(), safe=False)
        return np.asarray(pc.fill_null(values, np.nan).to_numpy(), dtype=np.float64) / scale

    def numbers(self, column: str) -> Floats:
        """A count or measure; NaN for null."""
        values = pc.cast(self.records.column(column), pa.float64())
        return np.asarray(pc.fill_null(values, np.nan).to_numpy(), dtype=np.float64)

    @cached_property
    def outcome(self) -> npt.NDArray[np.object_]:
        return np.asarray(self.records.column("outcome").cast(pa.string()).to_pylist(), dtype=object)

    def by_window(self) -> Iterator[tuple[str, Observations]]:
        """Label and records of each window that any were planned in; one at a time, as each is a copy."""
        column = self.records.column("window").cast(pa.string()).combine_chunks()
        labels = column.dictionary_encode()
        codes = np.asarray(labels.indices.to_numpy(zero_copy_only=False))
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(labels.dictionary) + 1))
        measured = self.records.select(_MEASURED)
        for code, label in enumerate(labels.dictionary.to_pylist()):
            yield label, Observations(measured.take(pa.array(order[bounds[code] : bounds[code + 1]])))

    def ended_as(self, outcome: Outcome) -> Mask:
        return np.asarray(self.outcome == outcome.value, dtype=bool)

    def window_masks(self) -> Iterator[tuple[str, Mask]]:
        """Label and records of each window that any were planned in, in order of appearance."""
        labels = self.records.column("window").cast(pa.string()).combine_chunks().dictionary_encode()
        codes = np.asarray(labels.indices.to_numpy(zero_copy_only=False))
        for code, label in enumerate(labels.dictionary.to_pylist()):
            yield label, np.asarray(codes == code, dtype=bool)

    @cached_property
    def is_ok(self) -> Mask:
        return np.asarray(self.outcome == Outcome.OK.value, dtype=bool)

    @cached_property
    def is_decided(self) -> Mask:
        """The target's doing, good or bad: our own faults and what was still running are left out."""
        decided = np.ones(self.records.num_rows, dtype=bool)
        for outcome in OWN_FAULTS | UNDECIDED:
            decided &= np.asarray(self.outcome != outcome.value, dtype=bool)
        return decided

    @cached_property
    def is_sent(self) -> Mask:
        return np.asarray(self.outcome != Outcome.NOT_SENT.value, dtype=bool)

    @cached_property
    def has_stages(self) -> Mask:
        """Whether the server told every stage of a request: of some only, no sum over them is known."""
        told = np.ones(self.records.num_rows, dtype=bool)
        for stage in SERVER_STAGES:
            told &= ~np.isnan(self.seconds(f"server_{stage}_us"))
        return told

    @cached_property
    def why_no_stages(self) -> str:
        """The reason, where no request of these has all stages."""
        columns = (self.records.column(f"server_{stage}_us") for stage in SERVER_STAGES)
        if any(column.null_count < len(column) for column in columns):
            return "the server tells only some of its stages"
        return "the server tells no stages"

    @cached_property
    def planned_s(self) -> Floats:
        return self.seconds("planned_ns")

    @cached_property
    def sent_s(self) -> Floats:
        return self.seconds("sent_ns")

    @cached_property
    def per_request(self) -> dict[str, Floats]:
        """The metrics that each request has, by name; NaN where a request has none."""
        planned, sent = self.planned_s, self.sent_s
        first, last = self.seconds("first_token_ns"), self.seconds("last_token_ns")
        tokens = self.numbers("output_tokens")
        many = np.where(tokens >= 2, tokens - 1, np.nan)
        of_ok = {
            "latency": last - planned,
            "service_latency": last - sent,
            "ttft": first - planned,
            "service_ttft": first - sent,
            "ttfat": self.seconds("first_answer_token_ns") - planned,
            "tpot": (last - first) / many,
        }
        of_sent = {
            "lateness": sent - planned,
            "dispatch_lateness": self.seconds("dispatched_ns") - planned,
        }
        ok = {name: np.where(self.is_ok, values, np.nan) for name, values in of_ok.items()}
        return {**ok, **{name: np.where(self.is_sent, values, np.nan) for name, values in of_sent.items()}}

    def chunk_gaps_us(self) -> npt.NDArray[np.int32]:
        """All gaps between token events of the answers that succeeded; as stored, since they may be many."""
        gaps = self.records.column("chunk_gap_us").filter(pa.array(self.is_ok))
        return np.asarray(pc.list_flatten(gaps).to_numpy(), dtype=np.int32)

    def tokens_between(self, edges_s: Floats) -> Floats:
        """Tokens that arrived from each edge until the next: float64 (num_edges - 1,). edges_s: ascending."""
        sums = np.zeros(edges_s.size + 1)
        for start in range(0, self.records.num_rows, _PART):
            moments, tokens = Observations(self.records.slice(start, _PART)).token_arrivals()
            places = np.searchsorted(edges_s, moments, side="right")
            sums += np.bincount(places, tokens, minlength=sums.size)
        return np.asarray(sums[1:-1], dtype=np.float64)

    def token_arrivals(self) -> tuple[Floats, Floats]:
        """(moments in s from the run's start, tokens that arrived then) over all requests, in no order.

        An event stands for its answer's output tokens over its events; an answer that came whole brings all of
        its tokens with its last byte.
        """
        first, tokens = self.seconds("first_token_ns"), self.numbers("output_tokens")
        streamed = ~np.isnan(first)
        gaps = self.records.column("chunk_gap_us").filter(pa.array(streamed))
        counts = np.asarray(pc.fill_null(pc.list_value_length(gaps), 0).to_numpy(), dtype=np.int64)
        flat = np.asarray(pc.list_flatten(gaps).to_numpy(), dtype=np.float64) / 1e6
        # Cumulative within each request: the running sum less its value where the request begins.
        running = np.concatenate([[0.0], np.cumsum(flat)])
        begins = np.cumsum(counts) - counts
        later = np.repeat(first[streamed] - running[begins], counts) + running[1:]
        weights = np.where(np.isnan(tokens[streamed]), 1.0, tokens[streamed] / (counts + 1))
        whole = self.is_ok & ~streamed & ~np.isnan(tokens)
        moments = np.concatenate([first[streamed], later, self.seconds("last_token_ns")[whole]])
        return moments, np.concatenate([weights, np.repeat(weights, counts), tokens[whole]])
