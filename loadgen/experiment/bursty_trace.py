"""A trace of traffic as production sends it, for experiments without one: bursts, then silence; short chats."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import loadgen
from loadgen.trace.schema import SCHEMA
from loadgen.trace.trace import Trace, TraceMetadata

# Lengths that a small model on a CPU serves; answers vary as much as chat answers do.
_MEAN_BURST = 4.0
_WITHIN_BURST_S = 0.008
_RATE_PER_S = 8.0


def bursty_trace(*, length_s: float = 120.0, seed: int = 0) -> Trace:
    """About 8 requests a second: bursts of 4 in the mean, 8 ms apart, exponential silences between.

    Prompts of 8 to 32 tokens, answers of 4 to 128: lognormal, median 20, sigma 0.8.
    """
    rng = np.random.default_rng(seed)
    bursts = int(length_s * _RATE_PER_S / _MEAN_BURST * 1.5) + 10
    sizes = rng.geometric(1 / _MEAN_BURST, bursts)
    begins = np.cumsum(rng.exponential(_MEAN_BURST / _RATE_PER_S, bursts))
    count = int(sizes.sum())
    within = rng.exponential(_WITHIN_BURST_S, count)
    firsts = np.cumsum(sizes) - sizes
    elapsed = np.cumsum(within) - np.repeat(np.cumsum(within)[firsts], sizes)
    arrivals_s = np.sort(np.repeat(begins, sizes) + elapsed)
    arrivals_s = arrivals_s[arrivals_s < length_s]
    count = arrivals_s.size
    given = {
        "arrival_ns": np.round((arrivals_s - arrivals_s[0]) * 1e9).astype(np.int64),
        "input_tokens": rng.integers(8, 33, count),
        "output_tokens": np.clip(np.round(rng.lognormal(3.0, 0.8, count)), 4, 128).astype(np.int64),
    }
    columns = [
        pa.array(given[field.name], field.type) if field.name in given else pa.nulls(count, field.type)
        for field in SCHEMA
    ]
    metadata = TraceMetadata(
        origin_unix_ns=None,
        stamp_marks="arrival",
        arrival_from="drawn: bursts and silences",
        recorder={"version": loadgen.__version__, "drawn": "bursty", "seed": seed, "length_s": length_s},
    )
    return Trace(pa.Table.from_arrays(columns, schema=SCHEMA), metadata)
