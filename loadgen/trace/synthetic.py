"""A new trace like a given one: a local block bootstrap of its arrivals, each with its own lengths.

Pieces of the trace, each of `block_s`, are drawn at random and set one behind the other (block bootstrap: Künsch,
Annals of Statistics 17, 1989; of point processes: Braun and Kulperger, J. Stat. Comput. Simul. 60, 1998; of
workload traces: Zakay and Feitelson, Concurrency and Computation 26, 2014). No law of gaps is fitted: gamma,
Weibull or Markov-modulated arrivals each miss what bursts of LLM traffic are like on some scale, and dispersion
that grows with the window (Gusella, IEEE J-SAC 9, 1991) needs bursts as they came. Within a piece, all is as
recorded: bursts, ties, silences, and how lengths go with each other, with those before and with the arrivals.

Two things are done on top:

- A piece for time t is drawn from within `reach_s` of the place that t has in the trace, so that the rate curve
  stays (local block bootstrap: Paparoditis and Politis, C. R. Acad. Sci. Paris 335, 2002).
- A piece holds the requests that came within its time, each with the whole gap after it. Gaps are never cut, be
  they longer than a piece, and the mean rate is without bias. Each request comes up equally often in the mean, save
  those of the first and last 24th: up to a fifth more often, as pieces at the ends are shorter.

Dependence between a piece and the next is lost: counts over w seconds vary less by about w / (3 block_s) of their
excess over the rate curve. No burst within a piece is larger than the largest recorded one, no silence is longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import loadgen
from loadgen.errors import TraceError
from loadgen.trace.schema import SCHEMA
from loadgen.trace.trace import Trace

Numbers = npt.NDArray[np.int64]

# A 24th of the trace leaves enough pieces for a new order; 5 minutes hold five windows of the widest dispersion.
BLOCKS = 24
LONGEST_BLOCK_NS = 300 * 10**9
REACH_BLOCKS = 4
MOST_REQUESTS = 10**8
_TRIES = 16
# What production measured came of other arrivals.
DROPPED = ("duration_ns", "ttft_ns", "status")


@dataclass(frozen=True, slots=True)
class _Source:
    """A trace's arrivals, from 0, and the gaps between them, one fewer; the last one's gap is drawn from these."""

    arrival_ns: Numbers
    gaps_ns: Numbers

    @property
    def length_ns(self) -> float:
        """Span and a mean gap, so that rows / length is the rate."""
        return float(self.arrival_ns[-1]) + float(self.gaps_ns.mean())

    def within(self, start_ns: float, length_ns: float) -> Numbers:
        """Rows that came in [start, start + length)."""
        low, high = np.searchsorted(self.arrival_ns, [start_ns, start_ns + length_ns])
        return np.arange(low, high, dtype=np.int64)

    def gaps_after(self, rows: Numbers, rng: np.random.Generator) -> Numbers:
        """ns from each of `rows` to the request that followed it."""
        last = self.arrival_ns.size - 1
        gaps_ns = self.gaps_ns[np.minimum(rows, last - 1)]
        return np.where(rows == last, rng.choice(self.gaps_ns), gaps_ns)


def draw_like(trace: Trace, *, seed: int, duration_s: float | None = None) -> Trace:
    """A trace like `trace`, drawn by `seed`: equal for equal arguments.

    duration_s: arrivals lie in [0, duration); None: as long as `trace`, and about as many requests. A shorter one
    runs through the whole rate curve in less time, a longer one through it again and again.
    Lengths, model, endpoint and stream stay with their request; status and measured times are left out. A session
    goes on where its next drawn turn is a later one, else a new one begins. Prefix blocks that two sessions share
    (each request is one, if it has none) are shared by all that are drawn; others only within one new session.
    Raises TraceError if a duration is given and all requests came at one instant, or if it is not above 0.
    """
    rng = np.random.default_rng(seed)
    arrival_ns = trace.arrival_ns - trace.arrival_ns[0]
    if duration_s is not None and not duration_s > 0:
        raise TraceError(f"the duration is {duration_s:g} s", hint="give one above 0")
    if arrival_ns[-1] == 0:
        if duration_s is not None:
            raise TraceError(
                f"all {trace.num_rows} requests came at one instant: there is no rate to draw from",
                hint="leave --duration out for as many requests at one instant",
            )
        rows = rng.integers(trace.num_rows, size=trace.num_rows)
        return _trace_of(trace, rows, np.zeros(rows.size, dtype=np.int64), {"seed": seed})
    source = _Source(arrival_ns, np.diff(arrival_ns))
    length_ns = source.length_ns if duration_s is None else duration_s * 1e9
    expected = length_ns / source.length_ns * trace.num_rows
    if expected > MOST_REQUESTS:
        raise TraceError(
            f"{expected:.3g} requests would be drawn, more than {MOST_REQUESTS:g}",
            hint="give a shorter --duration",
        )
    block_ns = min(source.length_ns / BLOCKS, length_ns / BLOCKS, LONGEST_BLOCK_NS)
    # Far above what floats tell apart, far below what anyone asks for.
    block_ns = max(block_ns, source.length_ns * 1e-9)
    pieces = list(_pieces(source, block_ns, length_ns, rng))
    rows = np.concatenate([piece for piece, _ in pieces])
    moments_ns = np.concatenate([moments for _, moments in pieces])
    is_within = moments_ns < length_ns
    settings = {"seed": seed, "block_s": block_ns / 1e9, "reach_s": REACH_BLOCKS * block_ns / 1e9}
    return _trace_of(trace, rows[is_within], moments_ns[is_within], settings)


def _pieces(
    source: _Source, block_ns: float, length_ns: float, rng: np.random.Generator
) -> Iterator[tuple[Numbers, Numbers]]:
    """(rows, moments in ns) of one piece behind the other, until `length_ns` is full."""
    now_ns = 0
    # A longer trace passes through the same curve again, a shorter one through all of it.
    pace = max(1.0, source.length_ns / length_ns)
    while now_ns < length_ns:
        # The middle of the piece to come: from its start the first requests would come up too often.
        share = (now_ns + block_ns / 2) * pace % source.length_ns / source.length_ns
        rows = _piece(source, share, block_ns, rng)
        gaps_ns = source.gaps_after(rows, rng)
        ends_ns = now_ns + np.cumsum(gaps_ns)
        yield rows, ends_ns - gaps_ns
        now_ns = int(ends_ns[-1])


def _piece(source: _Source, share: float, block_ns: float, rng: np.random.Generator) -> Numbers:
    """Rows of a piece from about that share of the trace; each piece there that has any is equally likely.

    Empty pieces are passed over: they would add neither a request nor time, as silences lie in the gaps.
    """
    # Pieces begin up to their length before the first request, so that the first is in as many as any other.
    low_ns, high_ns = -block_ns, float(source.arrival_ns[-1])
    place_ns = low_ns + share * (high_ns - low_ns)
    reach_ns = REACH_BLOCKS * block_ns
    for _ in range(_TRIES):
        rows = source.within(
            _mirrored(place_ns + rng.uniform(-reach_ns, reach_ns), low_ns, high_ns), block_ns
        )
        if rows.size:
            return rows
    # Silence nearly all around. Requests nearby are drawn, and a beginning before each; pieces of many
    # requests would come up so many times too often.
    first, end = 0, 0
    while first == end:
        first, end = np.searchsorted(source.arrival_ns, [place_ns - reach_ns, place_ns + block_ns + reach_ns])
        reach_ns *= 2
    while True:
        start_ns = source.arrival_ns[rng.integers(first, end)] - rng.random() * block_ns
        rows = source.within(start_ns, block_ns)
        if rows.size and rng.random() * rows.size < 1:
            return rows


def _mirrored(place_ns: float, low_ns: float, high_ns: float) -> float:
    """A place beyond either end, mirrored at it: so that every place is drawn equally often."""
    width_ns = high_ns - low_ns
    folded = (place_ns - low_ns) % (2 * width_ns)
    return low_ns + min(folded, 2 * width_ns - folded)


def _trace_of(trace: Trace, rows: Numbers, moments_ns: Numbers, settings: dict[str, float]) -> Trace:
    owners = _owners(trace.table)
    copies = _copies(owners[rows], rows)
    taken = trace.table.take(pa.array(rows))
    columns = {name: taken.column(name) for name in SCHEMA.names}
    columns["arrival_ns"] = pa.array(moments_ns)
    columns["session"] = _sessions(owners[rows], copies)
    columns["prefix_blocks"] = _blocks(trace.table, owners, rows, copies)
    dropped = [name for name in DROPPED if columns[name].null_count < rows.size]
    for name in DROPPED:
        columns[name] = pa.nulls(rows.size, SCHEMA.field(name).type)
    metadata = replace(
        trace.metadata,
        origin_unix_ns=None,
        zone=None,
        arrival_from="drawn: a local block bootstrap of the arrivals of a recorded trace",
        recorder={
            "version": loadgen.__version__,
            "format": "synth",
            **settings,
            "like": trace.trace_id,
            "distinct_requests": int(np.unique(rows).size),
        },
        counts={"requests": int(rows.size)},
        warnings=(
            *trace.metadata.warnings,
            *_notes(columns, dropped),
        ),
    )
    return Trace(pa.table([columns[field.name] for field in SCHEMA], schema=SCHEMA), metadata)


def _notes(columns: dict[str, pa.Array], dropped: list[str]) -> Iterator[str]:
    """What of the recorded trace was kept, and what not."""
    yield "drawn, not recorded"
    if dropped:
        yield f"left out, as measured under other arrivals: {', '.join(dropped)}"
    if columns["session"].null_count < len(columns["session"]):
        yield "sessions keep the order of their turns; those drawn again, or out of order, are new sessions"
    if columns["prefix_blocks"].null_count < len(columns["prefix_blocks"]):
        yield "prefix blocks that sessions share stay shared; those of one alone are new when it is drawn again"


def _owners(table: pa.Table) -> Numbers:
    """A number for each row: its session's, or one of its own below 0."""
    sessions = table.column("session").combine_chunks()
    numbers = np.asarray(sessions.fill_null(0), dtype=np.int64)
    return np.where(np.asarray(sessions.is_valid()), numbers, -1 - np.arange(numbers.size))


def _copies(owners: Numbers, rows: Numbers) -> Numbers:
    """How often each drawn row's owner has begun anew before: where a row drawn is no later one than the last."""
    order = np.argsort(owners, kind="stable")
    is_same = owners[order][1:] == owners[order][:-1]
    starts_anew = np.concatenate([[False], is_same & (rows[order][1:] <= rows[order][:-1])])
    begun = np.cumsum(starts_anew)
    first = np.concatenate([[True], ~is_same])
    at_first = np.maximum.accumulate(np.where(first, np.arange(order.size), 0))
    copies = np.empty(order.size, dtype=np.int64)
    copies[order] = begun - begun[at_first]
    return copies


def _sessions(owners: Numbers, copies: Numbers) -> pa.Array:
    """New numbers, dense by first arrival, for each owner's each copy; null where there was no session."""
    has_session = owners >= 0
    numbers = _dense(owners[has_session] * (int(copies.max(initial=0)) + 1) + copies[has_session])
    sessions = np.zeros(owners.size, dtype=np.int32)
    sessions[has_session] = numbers
    return pa.array(sessions, mask=~has_session)


def _blocks(table: pa.Table, owners: Numbers, rows: Numbers, copies: Numbers) -> pa.Array:
    """Block ids, numbered anew: those of one owner alone apart for each of its copies."""
    kind = SCHEMA.field("prefix_blocks").type
    blocks = table.column("prefix_blocks").combine_chunks()
    if blocks.null_count == len(blocks):
        return pa.nulls(rows.size, kind)
    ids = np.asarray(blocks.flatten(), dtype=np.int64)
    counts = np.asarray(blocks.value_lengths().fill_null(0), dtype=np.int64)
    distinct, numbers = np.unique(ids, return_inverse=True)
    owner_of = np.repeat(owners, counts)
    # Shared by two owners: the least and the greatest of its owners differ.
    least = np.full(distinct.size, np.iinfo(np.int64).max)
    greatest = np.full(distinct.size, np.iinfo(np.int64).min)
    np.minimum.at(least, numbers, owner_of)
    np.maximum.at(greatest, numbers, owner_of)
    is_own = least == greatest
    starts = np.cumsum(counts) - counts
    drawn_counts = counts[rows]
    ends = np.cumsum(drawn_counts)
    within = np.arange(int(ends[-1])) - np.repeat(ends - drawn_counts, drawn_counts)
    drawn = numbers[np.repeat(starts[rows], drawn_counts) + within]
    copy_of = np.where(is_own[drawn], np.repeat(copies, drawn_counts), 0)
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    values = pa.array(_dense(drawn * (int(copies.max()) + 1) + copy_of))
    is_null = pa.array(~np.asarray(blocks.is_valid())[rows])
    return pa.ListArray.from_arrays(pa.array(offsets), values, mask=is_null)


def _dense(keys: Numbers) -> Numbers:
    """0 for the first key and those equal to it, 1 for the next that differs, and so on."""
    _, first_at, numbers = np.unique(keys, return_index=True, return_inverse=True)
    rank = np.empty(first_at.size, dtype=np.int64)
    rank[np.argsort(first_at, kind="stable")] = np.arange(first_at.size)
    return rank[numbers]
