"""Stretch: the part of a trace that is sent, and how it is lengthened, thinned or made denser."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from loadgen.errors import ScheduleError
from loadgen.plan.moments import LONGEST_S, Moments

Numbers = npt.NDArray[np.int64]

# More than a machine sends in days; refused before memory runs out.
MOST_REQUESTS = 50_000_000
# Copies laid over a trace are shifted by less than this, and by less than a tenth of the length: the rate's curve
# stays, and requests of different copies do not leave at the same nanosecond.
LONGEST_SHIFT_NS = 10_000_000_000


@dataclass(frozen=True, slots=True)
class Stretch:
    """Requests within a length of time.

    rows: int64 (num_requests,), the trace's row of each. passes: int64 (num_requests,), 0 = the recorded request,
    k = its k-th repetition; a row and a pass name a request. moments_ns: from the stretch's start.
    length_ns: above the last moment.
    """

    rows: Numbers
    passes: Numbers
    moments_ns: Moments
    length_ns: int

    @property
    def num_requests(self) -> int:
        return int(self.rows.size)

    @property
    def num_passes(self) -> int:
        return int(self.passes.max()) + 1


def repeated(stretch: Stretch, times: int) -> Stretch:
    """The stretch so often end to end, with the silence kept where one follows the other.

    Where the stretch ends with its last request, that silence is not known; the mean gap stands in.
    Raises ScheduleError where there is none, or no machine would come to the end.
    """
    if times == 1:
        return stretch
    _check_size(stretch.num_requests * times, "--repeat")
    first_ns, last_ns = int(stretch.moments_ns[0]), int(stretch.moments_ns[-1])
    period_ns = stretch.length_ns
    if period_ns == last_ns + 1:
        if last_ns == first_ns:
            raise ScheduleError(
                "--repeat has no gap to keep: all requests come at one moment",
                hint="give --duration, so that the part has a length",
            )
        period_ns = last_ns - first_ns + max(1, round((last_ns - first_ns) / (stretch.num_requests - 1)))
    if period_ns * times > LONGEST_S * 1e9:
        raise ScheduleError(f"--repeat {times} takes more than a century", hint="give fewer")
    numbers = np.repeat(np.arange(times, dtype=np.int64), stretch.num_requests)
    return Stretch(
        rows=np.tile(stretch.rows, times),
        passes=np.tile(stretch.passes, times) + numbers * stretch.num_passes,
        moments_ns=np.tile(stretch.moments_ns, times) + numbers * period_ns,
        length_ns=(times - 1) * period_ns + stretch.length_ns,
    )


def without_long_gaps(stretch: Stretch, longest_ns: int) -> Stretch:
    """Silences cut to `longest_ns`, those at the beginning and at the end as well; shorter ones stay."""
    gaps_ns = np.minimum(np.diff(stretch.moments_ns, prepend=0), longest_ns)
    moments_ns = np.cumsum(gaps_ns)
    tail_ns = min(stretch.length_ns - int(stretch.moments_ns[-1]), longest_ns)
    return replace(stretch, moments_ns=moments_ns, length_ns=int(moments_ns[-1]) + tail_ns)


def with_count(stretch: Stretch, count: int, groups: Numbers, rng: np.random.Generator) -> Stretch:
    """The stretch with `count` requests over the same length.

    Fewer: chosen by chance, whole groups where requests belong together (`groups`: a number for each row of the
    stretch, equal within a group), so that the count may fall short by less than the smallest group left out.
    More: copies laid over it, each shifted by a drawn time; what is shifted over the end comes in at the beginning.
    """
    _check_size(count, "--scale-rate or --request-rate")
    num_whole, rest = divmod(count, stretch.num_requests)
    parts = [stretch] if num_whole else []
    parts += [_shifted(stretch, rng) for _ in range(num_whole - 1)]
    if rest:
        kept = _chosen(groups, rest, rng)
        thinned = Stretch(
            stretch.rows[kept], stretch.passes[kept], stretch.moments_ns[kept], stretch.length_ns
        )
        parts.append(_shifted(thinned, rng) if num_whole else thinned)
    return _laid_over(parts)


def cycled(stretch: Stretch, count: int) -> tuple[Numbers, Numbers]:
    """Rows and passes of `count` requests, taken in order, from the beginning again where the stretch ends."""
    _check_size(count, "the rate")
    places = np.arange(count, dtype=np.int64)
    within = places % stretch.num_requests
    return (
        stretch.rows[within],
        stretch.passes[within] + places // stretch.num_requests * stretch.num_passes,
    )


def _check_size(count: int, option: str) -> None:
    if count > MOST_REQUESTS:
        raise ScheduleError(f"{option} makes a schedule of {count} requests", hint="give a smaller number")


def _shifted(stretch: Stretch, rng: np.random.Generator) -> Stretch:
    """The same a little later, in the order of the new moments.

    What comes in at the beginning is a pass of its own, so that no session goes on before it has begun.
    """
    shift_ns = int(rng.integers(0, max(1, min(LONGEST_SHIFT_NS, stretch.length_ns // 10))))
    moments_ns = stretch.moments_ns + shift_ns
    is_over = moments_ns >= stretch.length_ns
    num_over = int(np.count_nonzero(is_over))
    return Stretch(
        rows=np.roll(stretch.rows, num_over),
        passes=np.roll(stretch.passes + is_over * stretch.num_passes, num_over),
        moments_ns=np.roll(moments_ns - is_over * stretch.length_ns, num_over),
        length_ns=stretch.length_ns,
    )


def _chosen(groups: Numbers, count: int, rng: np.random.Generator) -> Numbers:
    """Places of at most `count` rows, ascending: whole groups in drawn order, as long as they fit, at least one."""
    _, group_of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(sizes.size)
    is_taken = np.zeros(sizes.size, dtype=bool)
    if sizes.max() == 1:
        is_taken[order[:count]] = True
    else:
        room = count
        for group, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
            if size <= room:
                is_taken[group] = True
                room -= size
                if room == 0:
                    break
        if not is_taken.any():
            is_taken[np.argmin(sizes)] = True
    return np.flatnonzero(is_taken[group_of])


def _laid_over(parts: list[Stretch]) -> Stretch:
    """All parts at the same time, each with passes of its own; of equal moments the earlier part's first."""
    passes: list[Numbers] = []
    taken = 0
    for part in parts:
        passes.append(part.passes + taken)
        taken += part.num_passes
    moments_ns = np.concatenate([part.moments_ns for part in parts])
    order = np.argsort(moments_ns, kind="stable")
    return Stretch(
        rows=np.concatenate([part.rows for part in parts])[order],
        passes=np.concatenate(passes)[order],
        moments_ns=moments_ns[order],
        length_ns=parts[0].length_ns,
    )
