"""ClockOffset: by how much the server's wall clock differs from ours, from the requests themselves."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.report.figures import Floats, Missing
from loadgen.report.observations import Observations

# The share of exchanges with the least time on the way that an estimate is made of.
_QUICKEST = 0.05
_UNTOLD = "the server does not tell when it had a request"


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """offset_s: the server's clock less ours; above 0 it is ahead. residual_s: at most this far from the truth.

    Each exchange bounds the offset: what it spent on the way, there and back, was before its receipt or after its
    end. In the middle, the error is half of that at most (as in NTP). num_exchanges: those it was made of.
    """

    offset_s: float
    residual_s: float
    num_exchanges: int


def received_s(seen: Observations, started_unix_ns: int) -> Floats:
    """When the server had each request, by its own clock, in s from our start; NaN where it does not tell."""
    # Subtracted as integers: a float64 of today's unix time in ns is good to 256 ns only.
    column = pc.subtract(seen.records.column("server_recv_unix_ns"), started_unix_ns)
    since_start = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(pc.fill_null(since_start, np.nan).to_numpy(), dtype=np.float64) / 1e9


def clock_offset(seen: Observations, started_unix_ns: int | None) -> ClockOffset | Missing:
    """From the answers that succeeded and tell their receipt and end; the quickest on the way tell most."""
    if started_unix_ns is None:
        return Missing("the run was not started")
    at_server, spent = received_s(seen, started_unix_ns), seen.seconds("server_finished_us")
    sent, end = seen.sent_s, seen.seconds("last_token_ns")
    on_the_way = end - sent - spent
    known = np.flatnonzero(seen.is_ok & ~np.isnan(at_server + on_the_way) & (on_the_way >= 0))
    if not known.size:
        return Missing(_UNTOLD)
    quickest = known[np.argsort(on_the_way[known], kind="stable")[: max(1, round(known.size * _QUICKEST))]]
    # Receipt lies between (send) and (send + time on the way), by our clock.
    offsets = at_server[quickest] - sent[quickest] - on_the_way[quickest] / 2
    return ClockOffset(
        float(np.median(offsets)), float(np.median(on_the_way[quickest])) / 2, int(quickest.size)
    )
