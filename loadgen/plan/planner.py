"""The planner: Trace and Shape to Schedule. Pure, so the same inputs give the same schedule, bit for bit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.durations import format_duration
from loadgen.errors import ScheduleError
from loadgen.plan.moments import LONGEST_S, Moments, busiest, to_ns
from loadgen.plan.prefixes import blocks_of_copies
from loadgen.plan.rate_curve import Ramp
from loadgen.plan.schedule import SCHEMA, Schedule
from loadgen.plan.shape import LengthScale, Shape
from loadgen.plan.stretch import Stretch, cycled, repeated, with_count, without_long_gaps
from loadgen.plan.windows import label_windows, labels_at
from loadgen.trace.schema import INPUT_COLUMNS, OUTPUT_COLUMNS
from loadgen.trace.trace import Trace

# Streams of chance, apart from each other so that one injection does not change another's draw.
_BURST_MOMENTS, _EXTRA_ROWS, _ARRIVALS, _NUMBER = 1, 2, 3, 4

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
    sent = _base(trace, shape)
    injected = shape.peak.extras(sent.moments_ns, sent.length_ns) if shape.peak else []
    if shape.burst:
        injected += shape.burst.extras(sent.length_ns, _rng(shape, _BURST_MOMENTS))
    windows = label_windows(injected, sent.length_ns)

    num_extras = sum(len(extras.planned_ns) for extras in injected)
    extra_rows = _rng(shape, _EXTRA_ROWS).choice(sent.rows, num_extras)
    all_planned_ns = np.concatenate([sent.moments_ns, *(extras.planned_ns for extras in injected)])
    all_rows = np.concatenate([sent.rows, extra_rows])
    copies = np.concatenate([sent.passes, _occurrences(extra_rows) + sent.num_passes - 1])
    _check_copies(copies)
    order = np.argsort(all_planned_ns, kind="stable")
    table = _table(
        trace,
        all_rows[order],
        copies[order],
        sent.num_passes,
        all_planned_ns[order],
        shape.lengths,
        labels_at(windows, all_planned_ns[order]),
    )
    return Schedule(
        table=table,
        windows=windows,
        trace_id=trace.trace_id,
        shape=shape.as_settings(),
        num_passes=sent.num_passes,
    )


def _rng(shape: Shape, stream: int) -> np.random.Generator:
    return np.random.default_rng([shape.seed, stream])


def _base(trace: Trace, shape: Shape) -> Stretch:
    """Everything but the injections."""
    part = _part(trace.arrival_ns - trace.arrival_ns[0], shape)
    form_rng = _rng(shape, _ARRIVALS)
    if shape.rate is not None:
        curve = shape.rate.curve(part.length_ns) if isinstance(shape.rate, Ramp) else shape.rate
        rows, passes = cycled(part, curve.num_requests)
        formed = shape.arrivals.moments(np.zeros(rows.size, np.int64), curve.length_ns, form_rng)
        return Stretch(rows, passes, curve.moments(formed / curve.length_ns), curve.length_ns)
    part = repeated(part, shape.repeat or 1)
    if shape.max_gap_s is not None:
        part = without_long_gaps(part, to_ns(shape.max_gap_s))
    count = _wanted_count(part, shape)
    if count != part.num_requests:
        part = with_count(part, count, _groups(trace, part), _rng(shape, _NUMBER))
    planned_ns = _sped_up(part.moments_ns, shape.speedup)
    length_ns = max(int(planned_ns[-1]) + 1, round(part.length_ns / shape.speedup))
    planned_ns = shape.arrivals.moments(planned_ns, length_ns, form_rng)
    return Stretch(part.rows, part.passes, planned_ns, length_ns)


def _part(arrivals_ns: Moments, shape: Shape) -> Stretch:
    """The chosen part of the trace.

    A window that reaches behind the last arrival ends 1 ns after it.
    """
    start_ns, window_ns, first, last = _window(arrivals_ns, shape)
    if shape.num_requests is not None:
        if last - first < shape.num_requests:
            raise ScheduleError(
                f"--num-requests is {shape.num_requests}, but the chosen part holds {last - first}",
                hint="give fewer, or a longer part; --repeat and --scale-rate make more of it",
            )
        last = first + shape.num_requests
        window_ns = int(arrivals_ns[last - 1]) - start_ns + 1
    rows = np.arange(first, last, dtype=np.int64)
    return Stretch(rows, np.zeros_like(rows), arrivals_ns[first:last] - start_ns, window_ns)


def _window(arrivals_ns: Moments, shape: Shape) -> tuple[int, int, int, int]:
    """Start and length of the window in ns of the trace's own time, and its rows: first, last (exclusive)."""
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
    if shape.end is not None:
        window_ns = min(window_ns, to_ns(shape.end.at_s(end_ns / 1e9)) - start_ns)
    first, last = (int(row) for row in np.searchsorted(arrivals_ns, [start_ns, start_ns + window_ns]))
    if first >= last:
        raise ScheduleError(
            "no request arrives within the chosen window; the trace is "
            f"{format_duration((end_ns - 1) / 1e9)} long",
            hint="give --start with --duration or --end within it, or --busiest",
        )
    return start_ns, window_ns, first, last


def _wanted_count(part: Stretch, shape: Shape) -> int:
    """How many requests the rate asks for, rounded half up, at least one."""
    if shape.scale_rate is not None:
        # In floats 0.29 * 50 is a little below 14.5.
        wanted = Fraction(str(shape.scale_rate)) * part.num_requests
    elif shape.request_rate is not None:
        length_s = Fraction(part.length_ns, 1_000_000_000) / Fraction(str(shape.speedup))
        wanted = Fraction(str(shape.request_rate)) * length_s
    else:
        return part.num_requests
    return max(1, math.floor(wanted + Fraction(1, 2)))


def _groups(trace: Trace, part: Stretch) -> npt.NDArray[np.int64]:
    """A number for each request, equal for those of one session in one pass."""
    sessions = trace.table.column("session").combine_chunks()
    has_session = np.asarray(sessions.is_valid())
    numbers = np.asarray(sessions.fill_null(0), dtype=np.int64)
    # Sessions are numbered from 0; a request without one stands alone below.
    numbers = np.where(has_session, numbers, -1 - np.arange(numbers.size))
    return numbers[part.rows] * part.num_passes + part.passes


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
    return counts


def _check_copies(copies: npt.NDArray[np.int64]) -> None:
    if copies.max() > np.iinfo(np.int16).max:
        raise ScheduleError(
            f"a request is repeated {copies.max()} times",
            hint="inject or repeat fewer, or send a longer part of the trace",
        )


def _table(
    trace: Trace,
    rows: npt.NDArray[np.int64],
    copies: npt.NDArray[np.int64],
    num_passes: int,
    planned_ns: Moments,
    lengths: LengthScale,
    labels: pa.DictionaryArray,
) -> pa.Table:
    taken = trace.table.take(pa.array(rows))
    is_extra = pa.array(copies >= num_passes)
    columns = {
        "planned_ns": pa.array(planned_ns),
        "trace_row": pa.array(rows.astype(np.int32)),
        "copy": pa.array(copies.astype(np.int16)),
        "window": labels,
        "model": taken.column("model"),
        "session": pc.if_else(is_extra, pa.scalar(None, pa.int32()), taken.column("session")),
        "prefix_blocks": blocks_of_copies(trace.table, rows, copies),
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
