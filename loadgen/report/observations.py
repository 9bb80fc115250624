"""Observations: the records of a run as numbers, derived once; NaN where a record has no such moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.replay.request_record import OWN_FAULTS, SERVER_STAGES, UNDECIDED, Outcome
from loadgen.report.figures import Floats

Mask = npt.NDArray[np.bool_]

# Records whose token events are laid out in memory at once; an answer may have thousands of them.
_PART = 1 << 16
# What tokens are placed in time by.
_ARRIVALS = ("first_token_ns", "last_token_ns", "output_tokens", "outcome", "chunk_gap_us")
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
        """Label and records of each window that any were planned in: views of stretches of the same records."""
        labels, codes = self._window_codes()
        measured = self.records.select(_MEASURED)
        bounds = np.flatnonzero(np.diff(codes, prepend=-1, append=-1)) if codes.size else codes
        stretches: list[list[pa.Table]] = [[] for _ in labels]
        for start, end in pairwise(bounds.tolist()):
            stretches[codes[start]].append(measured.slice(start, end - start))
        for label, those in zip(labels, stretches, strict=True):
            yield label, Observations(pa.concat_tables(those))

    def _window_codes(self) -> tuple[list[str], npt.NDArray[np.int32]]:
        """Labels in order of appearance, and which of them each record has."""
        encoded = self.records.column("window").cast(pa.string()).combine_chunks().dictionary_encode()
        return encoded.dictionary.to_pylist(), np.asarray(encoded.indices.to_numpy(zero_copy_only=False))

    def ended_as(self, outcome: Outcome) -> Mask:
        return np.asarray(self.outcome == outcome.value, dtype=bool)

    def window_masks(self) -> Iterator[tuple[str, Mask]]:
        """Label and records of each window that any were planned in, in order of appearance."""
        labels, codes = self._window_codes()
        for code, label in enumerate(labels):
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
        """For certain: of what a lost worker did not tell of, it is not known."""
        return ~(self.ended_as(Outcome.NOT_SENT) | self.ended_as(Outcome.UNRECORDED))

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
        """All gaps between token events of the answers that succeeded, ascending, as stored: they may be many."""
        gaps = self.records.column("chunk_gap_us")
        counts = np.asarray(pc.fill_null(pc.list_value_length(gaps), 0).to_numpy(), dtype=np.int64)
        found = np.empty(int(counts[self.is_ok].sum()), dtype=np.int32)
        filled = row = 0
        for batch in pa.table({"gaps": gaps}).to_batches(max_chunksize=_PART):
            ok = self.is_ok[row : row + batch.num_rows]
            kept = batch.column(0).filter(pa.array(ok)).flatten().to_numpy()
            found[filled : filled + kept.size] = kept
            filled, row = filled + kept.size, row + batch.num_rows
        found.sort()
        return found

    def tokens_between(self, edges_s: Floats) -> Floats:
        """Tokens that arrived from each edge until the next: float64 (num_edges - 1,). edges_s: ascending."""
        first, last = self.seconds("first_token_ns"), self.seconds("last_token_ns")
        tokens = self.numbers("output_tokens")
        begun, ended = (np.searchsorted(edges_s, moments, side="right") for moments in (first, last))
        # Most answers begin and end between the same edges: their events need not be looked at.
        is_whole = np.where(np.isnan(first), self.is_ok, begun == ended) & ~np.isnan(tokens)
        sums = np.zeros(edges_s.size + 1)
        sums += np.bincount(ended[is_whole], tokens[is_whole], minlength=sums.size)
        others = np.flatnonzero(~np.isnan(first) & ~is_whole)
        arriving = self.records.select(_ARRIVALS)
        for start in range(0, others.size, _PART):
            part = Observations(arriving.take(pa.array(others[start : start + _PART])))
            moments, arrived = part.token_arrivals()
            sums += np.bincount(np.searchsorted(edges_s, moments, side="right"), arrived, minlength=sums.size)
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
