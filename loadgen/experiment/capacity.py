"""Capacity: the highest speed-up of a trace at which limits hold, by bisection with runs that confirm it.

A search is the list of its probes: what to try next follows from them alone, so that it can be stopped and go on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import beta

# A slower run takes longer: what breaks at an eighth of its speed is not looked into.
LOWEST, HIGHEST = 1 / 8, 64.0
_CONFIDENCE = 0.9


@dataclass(frozen=True, slots=True)
class Probe:
    """One run at a speed-up, and whether every limit held. run: the name of its folder. rate: offered, a second."""

    speed: float
    held: bool
    run: str
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Bracket:
    """Where the limits stop holding. holds: the highest speed at which most runs held; breaks: the next above it at
    which they did not; None where none was found within the bounds of the search."""

    holds: float | None
    breaks: float | None


@dataclass(frozen=True, slots=True)
class Capacity:
    """The result of a search. held of runs at `speed`, broken of runs at `breaks`.

    at_least: with 90 % confidence the limits hold in so large a share of runs at `speed` (Clopper and Pearson,
    Biometrika 26, 1934).
    """

    speed: float | None
    rate: float | None
    held: int
    runs: int
    breaks: float | None
    broken: int
    breaks_runs: int
    at_least: float | None


def bracket(probes: Sequence[Probe]) -> Bracket:
    """Of all probes so far. A speed of which as many runs broke as held counts as broken."""
    speeds = sorted({probe.speed for probe in probes})
    broken = [speed for speed in speeds if not _holds(probes, speed)]
    breaks = broken[0] if broken else None
    holding = [speed for speed in speeds if breaks is None or speed < breaks]
    return Bracket(holding[-1] if holding else None, breaks)


def next_speed(probes: Sequence[Probe], *, precision: float, confirm: int) -> float | None:
    """The speed-up to try next; None when the search is over.

    It doubles or halves from 1 until the limit lies between two speeds, bisects until these are within `precision`
    of each other, and then runs both until each has `confirm` runs; one that turns over begins it anew from there.
    """
    if not probes:
        return 1.0
    found = bracket(probes)
    if found.breaks is None:
        assert found.holds is not None
        return found.holds * 2 if found.holds < HIGHEST else _unconfirmed(probes, (found.holds,), confirm)
    if found.holds is None:
        return found.breaks / 2 if found.breaks > LOWEST else None
    if found.breaks / found.holds > 1 + precision:
        return math.sqrt(found.holds * found.breaks)
    return _unconfirmed(probes, (found.holds, found.breaks), confirm)


def capacity_of(probes: Sequence[Probe]) -> Capacity:
    """What the probes say."""
    found = bracket(probes)
    here = [probe for probe in probes if probe.speed == found.holds]
    above = [probe for probe in probes if probe.speed == found.breaks]
    held = sum(probe.held for probe in here)
    rates = [probe.rate for probe in here if probe.rate is not None]
    return Capacity(
        found.holds,
        rates[0] if rates else None,
        held,
        len(here),
        found.breaks,
        sum(not probe.held for probe in above),
        len(above),
        float(beta.ppf(1 - _CONFIDENCE, held, len(here) - held + 1)) if held else None,
    )


def _holds(probes: Sequence[Probe], speed: float) -> bool:
    held = [probe.held for probe in probes if probe.speed == speed]
    return 2 * sum(held) > len(held)


def _unconfirmed(probes: Sequence[Probe], speeds: Sequence[float], confirm: int) -> float | None:
    for speed in speeds:
        if sum(probe.speed == speed for probe in probes) < confirm:
            return speed
    return None
