"""Question: what of a trace is asked about."""

from __future__ import annotations

from loadgen.advise.question import busiest_part
from support.traces import trace_of


def test_the_busiest_part_is_a_trace_of_its_own_that_begins_at_0() -> None:
    quiet = [float(k) for k in range(100)]
    busy = [50.25 + 0.01 * k for k in range(20)]
    arrivals = sorted([*quiet, *busy])
    part = busiest_part(trace_of(arrivals, output_tokens=list(range(1, 121))), 12)
    # 12 of 120 requests take 9.9 of 99 s; the stretch with most arrivals has the 20 within it.
    assert part.num_rows == 30
    assert part.arrival_ns[0] == 0
    assert part.arrival_ns[-1] <= 9.9e9
    outputs = part.table.column("output_tokens").to_pylist()
    assert outputs == list(range(outputs[0], outputs[0] + 30))
