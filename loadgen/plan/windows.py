"""Windows: which stretch of a schedule is baseline, which an injection, which the recovery from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.durations import format_duration
from loadgen.errors import ScheduleError
from loadgen.plan.injection import Extras
from loadgen.plan.moments import Moments
from loadgen.plan.schedule import Window

BASELINE = "baseline"
# How long after an injection its effects are looked for, unless the next one comes first.
MIN_RECOVERY_NS = 10_000_000_000
RECOVERY_WIDTHS = 10


def label_windows(injected: Sequence[Extras], length_ns: int) -> tuple[Window, ...]:
    """Windows from 0 to `length_ns` without a hole: each injection, `recovery-k` after the k-th, else baseline.

    A recovery lasts ten widths of its injection, at least 10 s, and ends early where another injection or the
    schedule's end comes first. Raises ScheduleError if injections overlap.
    """
    ordered = sorted(injected, key=lambda extras: extras.start_ns)
    windows: list[Window] = []
    at_ns = 0
    for number, extras in enumerate(ordered, start=1):
        if extras.start_ns < at_ns:
            before = ordered[number - 2]
            raise ScheduleError(
                f"{extras.label} at {format_duration(extras.start_ns / 1e9)} begins within {before.label}",
                hint="place injections apart with --peak-at, --burst-at or --burst-every",
            )
        if extras.start_ns > at_ns:
            windows.append(Window(BASELINE, at_ns, extras.start_ns))
        windows.append(Window(extras.label, extras.start_ns, extras.end_ns))
        next_ns = ordered[number].start_ns if number < len(ordered) else length_ns
        recovery_ns = max(MIN_RECOVERY_NS, RECOVERY_WIDTHS * (extras.end_ns - extras.start_ns))
        at_ns = min(extras.end_ns + recovery_ns, next_ns, length_ns)
        if at_ns > extras.end_ns:
            windows.append(Window(f"recovery-{number}", extras.end_ns, at_ns))
        at_ns = max(at_ns, extras.end_ns)
    if at_ns < length_ns:
        windows.append(Window(BASELINE, at_ns, length_ns))
    return tuple(windows)


def places_in(windows: Sequence[Window], moments_ns: Moments) -> npt.NDArray[np.int64]:
    """The index of the window in which each moment lies."""
    starts_ns = np.array([window.start_ns for window in windows], dtype=np.int64)
    return np.searchsorted(starts_ns, moments_ns, side="right") - 1


def labels_at(windows: Sequence[Window], moments_ns: Moments) -> pa.DictionaryArray:
    """The label of the window in which each moment lies, dictionary<int32, string>."""
    numbers: dict[str, int] = {}
    of_window = [numbers.setdefault(window.label, len(numbers)) for window in windows]
    indices = np.array(of_window, dtype=np.int32)[places_in(windows, moments_ns)]
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(list(numbers)))
