"""The planner: Trace and Shape to Schedule. Pure, so the same inputs give the same schedule, bit for bit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.errors import ScheduleError
from loadgen.plan.schedule import SCHEMA, Schedule
from loadgen.plan.shape import LengthScale, Shape
from loadgen.plan.windows import label_windows, labels_at
from loadgen.trace.schema import INPUT_COLUMNS, LENGTH_COLUMNS
from loadgen.trace.trace import Trace

# Streams of chance, apart from each other so that one injection does not change another's draw.
_BURST_MOMENTS, _EXTRA_ROWS = 1, 2


def plan(trace: Trace, shape: Shape) -> Schedule:
    """What to send when. Moments count from the start of the chosen window, in wall time after the speed-up.

    Extra requests take their lengths from rows of the window, drawn by the seed; they belong to no session.
    Raises ScheduleError if the window holds no request or an injection does not fit.
    """
    start_ns, window_ns = _window(trace, shape)
    arrivals_ns = trace.arrival_ns - trace.arrival_ns[0]
    first, last = _bounds(arrivals_ns, start_ns, window_ns)
    rows = np.arange(first, last, dtype=np.int64)
    planned_ns = _sped_up(arrivals_ns[first:last] - start_ns, shape.speedup)
    length_ns = int(planned_ns[-1]) + 1
    if window_ns is not None:
        length_ns = max(length_ns, round(window_ns / shape.speedup))

    injected = shape.peak.extras(planned_ns, length_ns) if shape.peak else []
    if shape.burst:
        injected += shape.burst.extras(length_ns, np.random.default_rng([shape.seed, _BURST_MOMENTS]))
    windows = label_windows(injected, length_ns)

    num_extras = sum(len(extras.planned_ns) for extras in injected)
    extra_rows = np.random.default_rng([shape.seed, _EXTRA_ROWS]).choice(rows, num_extras)
    all_planned_ns = np.concatenate([planned_ns, *(extras.planned_ns for extras in injected)])
    all_rows = np.concatenate([rows, extra_rows])
    copies = np.concatenate([np.zeros(len(rows), np.int64), _occurrences(extra_rows)])
    order = np.argsort(all_planned_ns, kind="stable")
    table = _table(
        trace,
        all_rows[order],
        copies[order],
        all_planned_ns[order],
        shape.lengths,
        labels_at(windows, all_planned_ns[order]),
    )
    return Schedule(table=table, windows=windows, trace_id=trace.trace_id, shape=shape.as_settings())


def _window(trace: Trace, shape: Shape) -> tuple[int, int | None]:
    """Start, from the first arrival, and length of the window in ns of the trace's own time."""
    if shape.busiest_s is not None:
        window_ns = round(shape.busiest_s * 1e9)
        arrivals_ns = trace.arrival_ns - trace.arrival_ns[0]
        ends = np.searchsorted(arrivals_ns, arrivals_ns + window_ns, side="left")
        return int(arrivals_ns[np.argmax(ends - np.arange(arrivals_ns.size))]), window_ns
    start_ns = 0 if shape.start is None else round(shape.start.at_s(trace.span_s) * 1e9)
    return start_ns, None if shape.duration_s is None else round(shape.duration_s * 1e9)


def _bounds(arrivals_ns: npt.NDArray[np.int64], start_ns: int, window_ns: int | None) -> tuple[int, int]:
    first = int(np.searchsorted(arrivals_ns, start_ns, side="left"))
    last = len(arrivals_ns)
    if window_ns is not None:
        last = int(np.searchsorted(arrivals_ns, start_ns + window_ns, side="left"))
    if first >= last:
        raise ScheduleError(
            f"no request arrives within the chosen window; the trace is {arrivals_ns[-1] / 1e9:.3f} s long",
            hint="give --start and --duration within it, or --busiest",
        )
    return first, last


def _sped_up(offsets_ns: npt.NDArray[np.int64], speedup: float) -> npt.NDArray[np.int64]:
    """Offsets with every gap divided; the recorded ones, to the ns, at speed 1."""
    if speedup == 1.0:
        return offsets_ns
    return np.round(offsets_ns / speedup).astype(np.int64)


def _occurrences(rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """1 for the first occurrence of each value, 2 for the second, and so on."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = ordered[1:] != ordered[:-1]
    starts = np.maximum.accumulate(np.where(is_first, np.arange(len(rows)), 0)) if len(rows) else ordered
    counts = np.empty(len(rows), dtype=np.int64)
    counts[order] = np.arange(len(rows)) - starts + 1
    if len(rows) and counts.max() > np.iinfo(np.int16).max:
        raise ScheduleError(
            f"an injection repeats a request {counts.max()} times",
            hint="inject fewer requests, or a longer trace",
        )
    return counts


def _table(
    trace: Trace,
    rows: npt.NDArray[np.int64],
    copies: npt.NDArray[np.int64],
    planned_ns: npt.NDArray[np.int64],
    lengths: LengthScale,
    labels: list[str],
) -> pa.Table:
    taken = trace.table.take(pa.array(rows))
    is_copy = pa.array(copies > 0)
    columns = {
        "planned_ns": pa.array(planned_ns),
        "trace_row": pa.array(rows.astype(np.int32)),
        "copy": pa.array(copies.astype(np.int16)),
        "window": pa.array(labels).dictionary_encode(),
        "model": taken.column("model"),
        "session": pc.if_else(is_copy, pa.scalar(None, pa.int32()), taken.column("session")),
        "prefix_blocks": taken.column("prefix_blocks"),
        "stream": taken.column("stream"),
    }
    for name in LENGTH_COLUMNS:
        is_input = name in INPUT_COLUMNS
        columns[name] = _scaled(
            taken.column(name),
            lengths.input_factor if is_input else lengths.output_factor,
            lengths.max_input if is_input else lengths.max_output,
        )
    return (
        pa.table([columns[field.name] for field in SCHEMA], names=SCHEMA.names).cast(SCHEMA).combine_chunks()
    )


def _scaled(column: pa.ChunkedArray, factor: float, longest: int | None) -> pa.ChunkedArray:
    """Lengths times factor, rounded half up, at least 1 where they were, at most `longest`; nulls stay."""
    if factor != 1.0:
        scaled = pc.floor(pc.add(pc.multiply(pc.cast(column, pa.float64()), factor), 0.5))
        floor = pc.cast(pc.min_element_wise(column, 1), pa.float64())
        column = pc.cast(pc.max_element_wise(scaled, floor, skip_nulls=False), pa.int32())
    if longest is not None:
        column = pc.min_element_wise(column, pa.scalar(longest, pa.int32()), skip_nulls=False)
    return column
