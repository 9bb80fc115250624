"""The planner: Trace and Shape to Schedule. Pure, so the same inputs give the same schedule, bit for bit."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.durations import format_duration
from loadgen.errors import ScheduleError
from loadgen.plan.moments import LONGEST_S, Moments, busiest, to_ns
from loadgen.plan.schedule import SCHEMA, Schedule
from loadgen.plan.shape import LengthScale, Shape
from loadgen.plan.windows import label_windows, labels_at
from loadgen.trace.schema import INPUT_COLUMNS, OUTPUT_COLUMNS
from loadgen.trace.trace import Trace

# Streams of chance, apart from each other so that one injection does not change another's draw.
_BURST_MOMENTS, _EXTRA_ROWS, _ARRIVALS = 1, 2, 3

_LONGEST_LENGTH = np.iinfo(np.int32).max


def plan(trace: Trace, shape: Shape) -> Schedule:
    """What to send when. Moments count from the start of the chosen window, in wall time after the speed-up.

    The schedule is as long as the window, of which only what lies within the trace counts; without one it ends
    1 ns after the last arrival. Extra requests take lengths, model and prefix blocks from rows of the window,
    drawn by the seed; they belong to no session.
    Raises ScheduleError if no request has an input length, if the window holds no request, or if an injection does
    not fit.
    """
    if not trace.has_input_lengths:
        raise ScheduleError(
            "the trace has no input lengths, so no prompt can be made of the recorded size",
            hint="record a log that tells them (docs/recording.md lists which do)",
        )
    arrivals_ns = trace.arrival_ns - trace.arrival_ns[0]
    start_ns, window_ns, first, last = _window(arrivals_ns, shape)
    rows = np.arange(first, last, dtype=np.int64)
    planned_ns = _sped_up(arrivals_ns[first:last] - start_ns, shape.speedup)
    length_ns = max(int(planned_ns[-1]) + 1, round(window_ns / shape.speedup))
    planned_ns = shape.arrivals.moments(planned_ns, length_ns, np.random.default_rng([shape.seed, _ARRIVALS]))

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


def _window(arrivals_ns: Moments, shape: Shape) -> tuple[int, int, int, int]:
    """Start and length of the window in ns of the trace's own time, and its rows: first, last (exclusive).

    A window that reaches behind the last arrival ends 1 ns after it.
    """
    end_ns = int(arrivals_ns[-1]) + 1
    if shape.busiest_s is not None:
        window_ns = to_ns(shape.busiest_s)
        first, last = busiest(arrivals_ns, window_ns)
        start_ns = int(arrivals_ns[first])
        return start_ns, min(window_ns, end_ns - start_ns), first, last
    start_ns = 0 if shape.start is None else to_ns(shape.start.at_s((end_ns - 1) / 1e9))
    window_ns = end_ns - start_ns
    if shape.duration_s is not None:
        window_ns = min(window_ns, to_ns(shape.duration_s))
    first, last = (int(row) for row in np.searchsorted(arrivals_ns, [start_ns, start_ns + window_ns]))
    if first >= last:
        raise ScheduleError(
            "no request arrives within the chosen window; the trace is "
            f"{format_duration((end_ns - 1) / 1e9)} long",
            hint="give --start and --duration within it, or --busiest",
        )
    return start_ns, window_ns, first, last


def _sped_up(offsets_ns: Moments, speedup: float) -> Moments:
    """Offsets with every gap divided; the recorded ones, to the ns, at speed 1."""
    if speedup == 1.0:
        return offsets_ns
    if offsets_ns[-1] / speedup > LONGEST_S * 1e9:
        raise ScheduleError(f"--speedup {speedup:g} takes more than a century", hint="give a larger factor")
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
    planned_ns: Moments,
    lengths: LengthScale,
    labels: pa.DictionaryArray,
) -> pa.Table:
    taken = trace.table.take(pa.array(rows))
    is_copy = pa.array(copies > 0)
    columns = {
        "planned_ns": pa.array(planned_ns),
        "trace_row": pa.array(rows.astype(np.int32)),
        "copy": pa.array(copies.astype(np.int16)),
        "window": labels,
        "model": taken.column("model"),
        "session": pc.if_else(is_copy, pa.scalar(None, pa.int32()), taken.column("session")),
        "prefix_blocks": taken.column("prefix_blocks"),
        "stream": taken.column("stream"),
    }
    for names, option, factor, longest in (
        (INPUT_COLUMNS, "--scale-input", lengths.input_factor, lengths.max_input),
        (OUTPUT_COLUMNS, "--scale-output", lengths.output_factor, lengths.max_output),
    ):
        for name in names:
            columns[name] = _scaled(taken.column(name), factor, longest, option)
    return (
        pa.table([columns[field.name] for field in SCHEMA], names=SCHEMA.names).cast(SCHEMA).combine_chunks()
    )


def _scaled(column: pa.ChunkedArray, factor: float, longest: int | None, option: str) -> pa.ChunkedArray:
    """Lengths times factor, rounded half up, at least 1 where they were, at most `longest`; nulls stay."""
    if factor != 1.0:
        # To nine digits first: in floats 0.29 * 50 is a little below 14.5.
        product = pc.round(pc.multiply(pc.cast(column, pa.float64()), factor), ndigits=9)
        floor = pc.cast(pc.min_element_wise(column, 1), pa.float64())
        scaled = pc.max_element_wise(pc.floor(pc.add(product, 0.5)), floor, skip_nulls=False)
        if longest is not None:
            scaled = pc.min_element_wise(scaled, float(longest), skip_nulls=False)
        if (pc.max(scaled).as_py() or 0) > _LONGEST_LENGTH:
            raise ScheduleError(
                f"{option} {factor:g} makes a length of {pc.max(scaled).as_py():.4g}",
                hint="give a smaller factor, or a maximum",
            )
        column = pc.cast(scaled, pa.int32())
    if longest is not None:
        column = pc.min_element_wise(
            column, pa.scalar(min(longest, _LONGEST_LENGTH), pa.int32()), skip_nulls=False
        )
    return column
