"""Injections: extra arrivals at chosen moments. Pure: the same inputs and generator give the same extras."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from loadgen.durations import Position, format_duration
from loadgen.errors import ScheduleError
from loadgen.plan.moments import Moments, busiest, to_ns

# More in one injection than any machine sends within its width; refused before memory runs out.
MOST_EXTRAS = 10_000_000


@dataclass(frozen=True, slots=True)
class Extras:
    """What one injection adds: its interval (ns, end exclusive) and the planned moments of the added requests."""

    label: str
    start_ns: int
    end_ns: int
    planned_ns: Moments


@dataclass(frozen=True, slots=True)
class Peak:
    """Raise arrivals for `width_s` to `factor` times the schedule's own highest count over that width.

    at: where each peak begins; empty places `count` peaks evenly. Of the target count, what already lies in the
    interval stays and the rest is added, at the offsets that the schedule's own busiest interval has: ties
    stay ties. factor 2.0 is the instantaneous double peak.
    """

    width_s: float = 1.0
    factor: float = 2.0
    count: int = 1
    at: tuple[Position, ...] = ()

    def __post_init__(self) -> None:
        if to_ns(self.width_s) < 1:
            raise ScheduleError(f"--peak-width is {self.width_s:g} s", hint="give a time above 0, such as 1s")
        if not 1 <= self.factor < math.inf:
            raise ScheduleError(
                f"--peak-factor is {self.factor:g}", hint="give 1 or more; 2 doubles the peak"
            )
        if self.count < 1:
            raise ScheduleError(f"--peak-count is {self.count}", hint="give 1 or more")

    def extras(self, planned_ns: Moments, length_ns: int) -> list[Extras]:
        """The requests to add to a schedule of `length_ns` with arrivals at `planned_ns` (ascending)."""
        width_ns = to_ns(self.width_s)
        pattern_ns = busiest_offsets(planned_ns, width_ns)
        # In floats 1.1 * 10 is a little above 11, so its ceiling would be 12.
        target = math.ceil(Fraction(str(self.factor)) * len(pattern_ns))
        if target > MOST_EXTRAS:
            raise ScheduleError(
                f"--peak-factor {self.factor:g} makes a peak of {target} requests",
                hint="give a smaller factor",
            )
        injected: list[Extras] = []
        for number, start_ns in enumerate(
            places(self.at, self.count, width_ns, length_ns, option="--peak-at"), start=1
        ):
            present = np.searchsorted(planned_ns, [start_ns, start_ns + width_ns])
            num_added = max(0, target - int(present[1] - present[0]))
            # As many from each part of the pattern, so that half a pattern has the form of the whole.
            offsets_ns = pattern_ns[np.arange(num_added) * len(pattern_ns) // max(1, num_added)]
            injected.append(Extras(f"peak-{number}", start_ns, start_ns + width_ns, start_ns + offsets_ns))
        return injected


@dataclass(frozen=True, slots=True)
class Burst:
    """Add `size` requests within `width_s`, at random moments, then leave quiet what was quiet.

    at: where each burst begins. every_s: one burst each so often from `every_s` on, instead. Neither: one in
    the middle.
    """

    size: int
    width_s: float = 0.03
    at: tuple[Position, ...] = ()
    every_s: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.size <= MOST_EXTRAS:
            raise ScheduleError(
                f"--inject-burst is {self.size}", hint=f"give the number of requests, 1 to {MOST_EXTRAS}"
            )
        if to_ns(self.width_s) < 1:
            raise ScheduleError(
                f"--burst-width is {self.width_s:g} s", hint="give a time above 0, such as 30ms"
            )
        if self.every_s is not None and not self.every_s > self.width_s:
            raise ScheduleError(
                f"--burst-every is {self.every_s:g} s, no longer than the burst", hint="give a longer time"
            )
        if self.every_s is not None and self.at:
            raise ScheduleError("--burst-at and --burst-every exclude each other", hint="give one of them")

    def extras(self, length_ns: int, rng: np.random.Generator) -> list[Extras]:
        """The requests to add to a schedule of `length_ns`."""
        width_ns = to_ns(self.width_s)
        if self.every_s is not None:
            every_ns = to_ns(self.every_s)
            starts_ns = list(range(every_ns, length_ns - width_ns + 1, every_ns))
            if not starts_ns:
                raise ScheduleError(
                    f"--burst-every is {self.every_s:g} s, longer than the schedule",
                    hint="give a shorter time",
                )
        else:
            starts_ns = places(self.at, 1, width_ns, length_ns, option="--burst-at")
        return [
            Extras(
                f"burst-{number}",
                start_ns,
                start_ns + width_ns,
                start_ns + np.sort(rng.integers(0, width_ns, self.size, dtype=np.int64)),
            )
            for number, start_ns in enumerate(starts_ns, start=1)
        ]


def busiest_offsets(planned_ns: Moments, width_ns: int) -> Moments:
    """Arrivals of the earliest interval [t, t + width) that holds most of them, as offsets from its start."""
    first, last = busiest(planned_ns, width_ns)
    offsets_ns: Moments = planned_ns[first:last] - planned_ns[first]
    return offsets_ns


def places(at: tuple[Position, ...], count: int, width_ns: int, length_ns: int, *, option: str) -> list[int]:
    """Where injections of `width_ns` begin in a schedule of `length_ns`: as told, or `count` evenly placed.

    Percentages place the injection's beginning within what leaves room for its width. Raises ScheduleError
    when it does not fit.
    """
    room_s = (length_ns - width_ns) / 1e9
    if room_s < 0:
        raise ScheduleError(
            f"an injection of {format_duration(width_ns / 1e9)} does not fit into a schedule of "
            f"{format_duration(length_ns / 1e9)}",
            hint="send a longer part of the trace, or give a smaller width",
        )
    if not at:
        at = tuple(Position(share=number / (count + 1), offset_s=None) for number in range(1, count + 1))
    starts_ns = sorted(to_ns(position.at_s(room_s)) for position in at)
    if starts_ns[-1] + width_ns > length_ns:
        raise ScheduleError(
            f"{option} {format_duration(starts_ns[-1] / 1e9)} lies behind the end of the schedule "
            f"({format_duration(length_ns / 1e9)}, of which the injection takes "
            f"{format_duration(width_ns / 1e9)})",
            hint="give an earlier position, or a percentage",
        )
    return starts_ns
