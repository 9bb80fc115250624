"""Calibration: what this machine can send honestly, and how a plan compares with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.percentiles import nearest_rank

_SECOND_NS = 1_000_000_000
# A stream of which the trace does not tell the length counts as one of so many events.
_USUAL_EVENTS = 32
# Lateness p99 that is honest: what the verdict of a run allows, or twice what this machine has at rest.
HONEST_P99_S = 0.002
_FLOORS_ALLOWED = 2.0


@dataclass(frozen=True, slots=True)
class Step:
    """One rate that was tried. lateness_p99_s: None where not all was sent."""

    rate_per_s: float
    lateness_p99_s: float | None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The highest honest rate for streams of `num_events`. is_reached: False where the highest rate tried was."""

    num_events: int
    rate_per_s: float
    is_reached: bool


@dataclass(frozen=True, slots=True)
class Calibration:
    """The generator against a null target on one machine.

    host: facts of the machine and of the versions that ran. measured_utc: ISO date. workers, transport, realtime:
    as in a replay. floor_p50_s, floor_p99_s: lateness at a rate that is no load. ceilings: by length of stream,
    shortest first.
    """

    host: dict[str, Any]
    measured_utc: str
    workers: int
    transport: str
    realtime: bool
    floor_p50_s: float
    floor_p99_s: float
    ceilings: tuple[Ceiling, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Calibration:
        """Raises KeyError or TypeError for what is none."""
        ceilings = tuple(Ceiling(**ceiling) for ceiling in document["ceilings"])
        return cls(**{**document, "ceilings": ceilings})

    def costs_s(self) -> tuple[float, float]:
        """Seconds of the machine's capacity that a request takes, and each event of its stream."""
        first, last = self.ceilings[0], self.ceilings[-1]
        if last.num_events == first.num_events:
            return 1 / first.rate_per_s, 0.0
        more_s = 1 / last.rate_per_s - 1 / first.rate_per_s
        event_s = max(0.0, more_s / (last.num_events - first.num_events))
        return max(0.0, 1 / first.rate_per_s - event_s * first.num_events), event_s

    def load_of(self, planned_ns: npt.NDArray[np.int64], num_events: npt.NDArray[np.int64]) -> float:
        """What the busiest second of a plan takes of this capacity: 1 is all of it."""
        request_s, event_s = self.costs_s()
        taken_s = np.concatenate([[0.0], np.cumsum(request_s + event_s * num_events)])
        ends = np.searchsorted(planned_ns, planned_ns + _SECOND_NS, side="left")
        return float((taken_s[ends] - taken_s[:-1]).max(initial=0.0))


def events_of(table: pa.Table, *, stream: bool | None) -> npt.NDArray[np.int64]:
    """Events that the answer to each row of a schedule's table is planned to have; 1 where it is no stream."""
    texts = pc.coalesce(table.column("output_chars"), table.column("output_bytes"))
    tokens = pc.coalesce(
        table.column("output_tokens"), pc.divide(pc.add(texts, 3), 4), pa.scalar(_USUAL_EVENTS, pa.int32())
    )
    events = np.maximum(np.asarray(tokens.to_numpy(), dtype=np.int64), 1)
    if stream is not None:
        return events if stream else np.ones_like(events)
    is_stream = np.asarray(table.column("stream").fill_null(True).to_numpy(zero_copy_only=False), dtype=bool)
    return np.where(is_stream, events, 1)


def comparison(calibration: Calibration, table: pa.Table, *, stream: bool | None, workers: int) -> str:
    """One line: a plan's busiest second beside what the machine can send honestly."""
    planned_ns = np.asarray(table.column("planned_ns").to_numpy(), dtype=np.int64)
    load = calibration.load_of(planned_ns, events_of(table, stream=stream))
    # Workers beside those measured do as much each, as long as there are cores for them.
    cores = int(calibration.host.get("cores") or 1)
    load *= calibration.workers / min(workers, max(calibration.workers, cores))
    share = f"{load:.1f} times" if load >= 1 else f"{load:.0%} of"
    what = "what this machine can send honestly"
    last = calibration.ceilings[-1]
    figure = (
        f"{last.rate_per_s:,.0f} requests per second with {last.num_events} events each, "
        f"by {_workers(calibration.workers)}"
    )
    return (
        f"your plan's highest second is {share} {what} ({figure}; calibrated {calibration.measured_utc[:10]})"
    )


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


@dataclass(frozen=True, slots=True)
class Stair:
    """One rate to try. planned_ns: int64, ascending, evenly spaced."""

    rate_per_s: float
    planned_ns: npt.NDArray[np.int64]


def stairs(climb: Sequence[tuple[float, float]], pause_s: float) -> list[Stair]:
    """A stair for each rate per second and its seconds, one after another with nothing sent for `pause_s`."""
    found: list[Stair] = []
    start_s = 0.0
    for rate_per_s, length_s in climb:
        count = max(1, round(rate_per_s * length_s))
        planned_s = start_s + np.arange(count) * (length_s / count)
        found.append(Stair(rate_per_s, np.round(planned_s * 1e9).astype(np.int64)))
        start_s += length_s + pause_s
    return found


def step_of(stair: Stair, lateness_ns: npt.NDArray[np.int64]) -> Step:
    """What came of a stair, by the lateness of what was sent."""
    if lateness_ns.size < stair.planned_ns.size:
        return Step(stair.rate_per_s, None)
    (p99,) = nearest_rank(lateness_ns, [99])
    return Step(stair.rate_per_s, None if p99 is None else p99 / 1e9)


def ceiling_of(num_events: int, steps: Sequence[Step], floor_p99_s: float) -> Ceiling:
    """The highest rate that was sent on time; the lowest that was tried where none was.

    A lower one that was late does not count against it: beyond what a machine can carry, lateness only grows, while
    a neighbour on its cores makes any rate late for once.
    """
    honest_s = max(HONEST_P99_S, _FLOORS_ALLOWED * floor_p99_s)
    on_time = [
        step.rate_per_s
        for step in steps
        if step.lateness_p99_s is not None and step.lateness_p99_s <= honest_s
    ]
    tried = [step.rate_per_s for step in steps]
    highest = max(on_time, default=min(tried))
    return Ceiling(num_events, highest, is_reached=highest < max(tried))
