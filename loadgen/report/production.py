"""Production: how long the recorded service took for the requests that were replayed, where its trace knows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.report.curves import Ecdf, ecdf
from loadgen.report.figures import Distribution, Missing, distribution
from loadgen.report.observations import Observations
from loadgen.trace.trace import Trace


@dataclass(frozen=True, slots=True)
class Production:
    """duration: of each trace row that was replayed, in s, once, however often it was sent."""

    duration: Distribution
    curve: Ecdf


def production_of(trace: Trace, seen: Observations) -> Production | Missing:
    """Production's times of the rows that the run replayed, or why there are none.

    trace: the one that was replayed; whoever calls has compared its id with the run's.
    """
    rows = np.unique(np.asarray(seen.records.column("trace_row").to_numpy(), dtype=np.int64))
    column = trace.table.column("duration_ns").take(pa.array(rows[rows < trace.num_rows]))
    known = np.asarray(pc.drop_null(column).to_numpy(), dtype=np.float64) / 1e9
    duration = distribution(known, "")
    if isinstance(duration, Missing):
        return Missing("the trace does not know how long its requests took")
    return Production(duration, ecdf("production", known))
