"""Warm-up: what was sent before the start, summed up apart from the run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.percentiles import nearest_rank
from loadgen.replay.request_record import Outcome, Phase


def warmup_of(records: pa.Table) -> pa.Table:
    """The warm-up's records, in the order they were sent."""
    return records.filter(_is_warmup(records)).sort_by("planned_ns")


def without_warmup(records: pa.Table) -> pa.Table:
    """The run's own records."""
    return records.filter(pc.invert(_is_warmup(records)))


def warmup_facts(warmup: pa.Table) -> dict[str, Any] | None:
    """requests, outcomes by name, and service latency in seconds of the first and at the median of those that
    succeeded (null where none did); None without a warm-up.
    """
    if warmup.num_rows == 0:
        return None
    outcomes = warmup.column("outcome").cast(pa.string()).to_pylist()
    latency = pc.subtract(warmup.column("last_token_ns"), warmup.column("sent_ns")).to_pylist()
    ok_s = [
        nanoseconds / 1e9
        for outcome, nanoseconds in zip(outcomes, latency, strict=True)
        if outcome == Outcome.OK.value and nanoseconds is not None
    ]
    (median_s,) = nearest_rank(np.asarray(ok_s, dtype=np.float64), [50])
    return {
        "requests": warmup.num_rows,
        "outcomes": {name: outcomes.count(name) for name in dict.fromkeys(outcomes)},
        "first_latency_s": ok_s[0] if ok_s else None,
        "median_latency_s": median_s,
    }


def _is_warmup(records: pa.Table) -> pa.ChunkedArray:
    return pc.fill_null(pc.equal(records.column("phase").cast(pa.string()), Phase.WARMUP.value), False)
