"""How far another machine's monotonic clock is from ours, from questions and answers alone.

An answer was given after its question was asked and before it was back. So each answer bounds the offset on both
sides, whatever the network did (Cristian, Probabilistic clock synchronization, 1989).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadgen.replay.request_record import SCHEMA

# Moments of a record that were read off the worker's clock; planned_ns was not.
_STAMPS = tuple(
    field.name
    for field in SCHEMA
    if field.name.endswith("_ns") and field.name not in ("planned_ns", "server_recv_unix_ns")
)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """One question. asked_ns, back_ns: by our clock. told_ns: by theirs, somewhere in between."""

    asked_ns: int
    told_ns: int
    back_ns: int

    @property
    def round_trip_ns(self) -> int:
        return self.back_ns - self.asked_ns


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Their clock minus ours lies from least_ns to most_ns, for certain."""

    least_ns: int
    most_ns: int

    @property
    def likely_ns(self) -> int:
        """The middle: true where the fastest way there took as long as the fastest way back."""
        return (self.least_ns + self.most_ns) // 2

    @property
    def uncertainty_ns(self) -> int:
        """The middle is no further from the truth than this."""
        return (self.most_ns - self.least_ns + 1) // 2


def offset_from(readings: Sequence[ClockReading]) -> ClockOffset:
    """What a short series of readings tells together: at least as much as the one with the least round trip.

    Where they contradict each other, since a clock moved meanwhile, that one alone counts. Raises ValueError
    without a reading.
    """
    least_ns = max(reading.told_ns - reading.back_ns for reading in readings)
    most_ns = min(reading.told_ns - reading.asked_ns for reading in readings)
    if least_ns > most_ns:
        fastest = min(readings, key=lambda reading: reading.round_trip_ns)
        return ClockOffset(fastest.told_ns - fastest.back_ns, fastest.told_ns - fastest.asked_ns)
    return ClockOffset(least_ns, most_ns)


class TrackedClock:
    """Another machine's clock over the time of a run, checked now and then.

    The offset in use stays as it is while the checks allow it, and moves to their nearest bound where they do not:
    two clocks drift apart by some microseconds a second, and how well one check went says nothing of that.
    """

    def __init__(self, at_ns: int, offset: ClockOffset) -> None:
        self.first = offset
        self._at_ns = [at_ns]
        self._offset_ns = [offset.likely_ns]
        self._base_ns = offset.likely_ns
        self.residual_ns = 0

    @property
    def offset_ns(self) -> int:
        """Their clock minus ours, as in use now."""
        return self._offset_ns[-1]

    @property
    def num_checks(self) -> int:
        return len(self._at_ns)

    @property
    def drift_ns(self) -> int:
        """By how much the offset in use has moved since the first check."""
        return self._offset_ns[-1] - self._offset_ns[0]

    def check(self, at_ns: int, offset: ClockOffset) -> None:
        """Take a later check, made at this moment of our clock.

        residual_ns grows to the most by which what a check finds likely is off the offset that is then in use.
        """
        in_use_ns = min(max(self.offset_ns, offset.least_ns), offset.most_ns)
        self._at_ns.append(at_ns)
        self._offset_ns.append(in_use_ns)
        self.residual_ns = max(self.residual_ns, abs(offset.likely_ns - in_use_ns))

    def start(self, start_ns: int) -> int:
        """The moment of their clock that is `start_ns` on ours; stamps are corrected against it from now on."""
        self._base_ns = self.offset_ns
        return start_ns + self._base_ns

    def corrected(self, batch: pa.RecordBatch, start_ns: int) -> pa.RecordBatch:
        """Records whose stamps count from `start`, as our clock would have stamped them."""
        if all(offset_ns == self._base_ns for offset_ns in self._offset_ns):
            return batch
        columns = list(batch.columns)
        for name in _STAMPS:
            place = SCHEMA.get_field_index(name)
            stamps = columns[place]
            moved = self._moved_by(np.asarray(stamps.fill_null(0), dtype=np.int64) + start_ns)
            columns[place] = pa.array(
                np.asarray(stamps.fill_null(0), dtype=np.int64) - moved,
                pa.int64(),
                mask=np.asarray(stamps.is_null()),
            )
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

    def _moved_by(self, at_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """By how much the offset had moved since the start; in between checks it moved evenly."""
        first_ns = self._at_ns[0]
        moved = np.interp(
            (at_ns - first_ns).astype(np.float64),
            np.asarray(self._at_ns, dtype=np.float64) - first_ns,
            np.asarray(self._offset_ns, dtype=np.float64) - self._base_ns,
        )
        return np.round(moved).astype(np.int64)
