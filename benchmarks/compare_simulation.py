"""What `loadgen ab` may claim: its false alarms, its power and the coverage of its intervals, under known noise.

    python benchmarks/compare_simulation.py [--repeats 400] [--write docs/compare-simulation.md]

A simulated service (bursty arrivals, 8 servers, lognormal work) is measured twenty times a side by the schedule of
`ab`, under noise that is known because it was put in: of requests, of drift, of steps, from run to run. Each
experiment is judged by the code that judges real ones.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from loadgen.compare.judgement import Plan, Traits, judge_pairs
from loadgen.compare.laws import Floats, two_sided_t_p
from loadgen.compare.verdict import Verdict

RATE_PER_S, SERVERS, ARRIVAL_CV = 20.0, 8, 2.0
PAUSE_S = 2  # between two runs
STATISTICS = ("mean", "p50", "p95", "p99", "goodput", "served rate")
DECIDING = ("mean", "p50", "p99")
WINDOWS = ("overall", "first half", "second half")
PERCENTS = {"p50": 50, "p95": 95, "p99": 99}
EFFECT = 1.05
DEADLINE_S = 0.5  # a request that takes longer is not good; beyond twice this it failed


@dataclass(frozen=True)
class Noise:
    """Standard deviations, as shares: of one request, of drift (AR(1) with tau_s), of runs; tails and steps."""

    name: str
    request: float = 0.10
    drift: float = 0.05
    tau_s: float = 20.0
    run: float = 0.01
    student_df: float | None = None  # of requests and runs; None is normal
    step: float = 0.0  # size of level shifts, one each `step_every_s` on average
    step_every_s: float = 600.0
    trend: float = 0.0  # growth over the whole experiment


NOISES = (
    Noise("as compare-design: 10 % a request, drift 5 % (20 s), 1 % a run"),
    Noise("heavier drift: 10 %, 20 s", drift=0.10),
    Noise("slow drift: 5 %, 300 s", tau_s=300),
    Noise("steps of 10 %, each 10 min", step=0.10),
    Noise("heavy tails: t with 3 df", student_df=3, run=0.02),
    Noise("more run noise: 4 %", run=0.04),
    Noise("trend: 20 % slower from first to last run", trend=0.20),
)


def drift(noise: Noise, repeats: int, length_s: int, rng: np.random.Generator) -> Floats:
    """The log of the level each second: float64 (repeats, length_s)."""
    keep = np.exp(-1 / noise.tau_s)
    shocks = rng.standard_normal((repeats, length_s))
    level = np.empty((repeats, length_s))
    level[:, 0] = shocks[:, 0]
    for second in range(1, length_s):
        level[:, second] = keep * level[:, second - 1] + np.sqrt(1 - keep**2) * shocks[:, second]
    level *= noise.drift
    if noise.step:
        jumps = rng.random((repeats, length_s)) < 1 / noise.step_every_s
        signs = rng.choice([-1.0, 1.0], size=(repeats, length_s))
        heights = np.where(jumps, signs * noise.step, 0.0)
        # A level that was shifted returns at the next shift, else it would leave every bound.
        level += np.abs(np.cumsum(heights / noise.step, axis=1) % 2) * noise.step
    return level + noise.trend * np.linspace(0, 1, length_s)


def latencies(arrival_s: Floats, work_s: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """First come, first served by SERVERS: float32 (requests, runs), of float32 work of the same shape."""
    requests, runs = work_s.shape
    free_s = np.zeros((SERVERS, runs))
    run = np.arange(runs)
    latency_s = np.empty((requests, runs), dtype=np.float32)
    for request in range(requests):
        server = free_s.argmin(axis=0)
        end_s = np.maximum(free_s[server, run], arrival_s[request]) + work_s[request]
        free_s[server, run] = end_s
        latency_s[request] = end_s - arrival_s[request]
    return latency_s


@dataclass(frozen=True)
class Experiments:
    """values: (repeats, runs, cells) in the order of the runs. is_candidate: (repeats, runs).

    truth: (repeats, cells), the change over the very runs of an experiment, had each been run as both.
    """

    values: Floats
    is_candidate: npt.NDArray[np.bool_]
    truth: Floats
    requests: int  # of a run

    def differences(self) -> Floats:
        """(repeats, pairs, cells), candidate against base."""
        scaled = _scaled(self.values)
        later = scaled[:, 1::2] - scaled[:, 0::2]
        return np.where(self.is_candidate[:, 1::2, None], later, -later)


def cells() -> list[tuple[str, str]]:
    return [(window, statistic) for window in WINDOWS for statistic in STATISTICS]


IS_RATIO = np.array([statistic != "goodput" for _, statistic in cells()])


def simulate(
    noise: Noise,
    load: float,
    effect: float,
    pairs: int,
    run_s: int,
    repeats: int,
    rng: np.random.Generator,
    order: str = "coin",
) -> Experiments:
    """`order`: coin (each pair's own), abba, or blocked (all runs of the base first)."""
    runs = 2 * pairs
    shape = ARRIVAL_CV**-2
    moments = np.cumsum(rng.gamma(shape, 1 / (RATE_PER_S * shape), size=int(RATE_PER_S * run_s * 3)))
    arrival_s = moments[moments < run_s]
    work_s = rng.lognormal(0, 0.6, arrival_s.size)
    work_s *= load * SERVERS * run_s / work_s.sum()
    level = drift(noise, repeats, runs * (run_s + PAUSE_S), rng)
    second = np.arange(runs)[:, None] * (run_s + PAUSE_S) + arrival_s.astype(int)
    if order == "coin":
        first = rng.random((repeats, pairs)) < 0.5
    else:
        first = np.broadcast_to(np.arange(pairs) % 2 == 1, (repeats, pairs))
    is_candidate = np.stack([first, ~first], axis=-1).reshape(repeats, runs)
    if order == "blocked":
        is_candidate = np.broadcast_to(np.arange(runs) >= pairs, (repeats, runs))
    draw = _standard(noise, rng)
    logs = level[:, second].transpose(2, 0, 1).astype(np.float32)  # (requests, repeats, runs)
    logs += noise.request * draw(logs.shape)
    logs += noise.run * draw((repeats, runs))
    halves = (np.ones(arrival_s.size, bool), arrival_s < run_s / 2, arrival_s >= run_s / 2)
    worlds = []
    for factor in dict.fromkeys((1.0, effect)):
        work = (np.exp(logs) * (factor * work_s[:, None, None]).astype(np.float32)).reshape(
            arrival_s.size, -1
        )
        latency_s = latencies(arrival_s, work).reshape(arrival_s.size, repeats, runs)
        worlds.append(
            np.concatenate([_statistics(latency_s[half], run_s * half.mean()) for half in halves], axis=-1)
        )
    truth = (_scaled(worlds[-1]) - _scaled(worlds[0])).mean(axis=1)
    values = np.where(is_candidate[..., None], worlds[-1], worlds[0])
    return Experiments(values, is_candidate, truth, arrival_s.size)


def _scaled(values: Floats) -> Floats:
    return np.where(IS_RATIO, np.log(np.where(IS_RATIO, values, 1.0)), values)


def _standard(noise: Noise, rng: np.random.Generator):  # type: ignore[no-untyped-def]
    if noise.student_df is None:
        return lambda shape: rng.standard_normal(shape, dtype=np.float32)
    scale = np.sqrt((noise.student_df - 2) / noise.student_df)
    # Bounded: an exponential of a t has no mean, and no machine is a thousand times slower for one request.
    return lambda shape: np.clip(rng.standard_t(noise.student_df, shape) * scale, -15, 15).astype(np.float32)


def _statistics(latency_s: npt.NDArray[np.float32], span_s: float) -> Floats:
    """(repeats, runs, statistics)."""
    count = latency_s.shape[0]
    ranks = {name: int(np.ceil(count * percent / 100)) - 1 for name, percent in PERCENTS.items()}
    ordered = np.partition(latency_s, sorted(ranks.values()), axis=0)
    columns = {
        "mean": latency_s.mean(axis=0, dtype=np.float64),
        **{name: ordered[rank] for name, rank in ranks.items()},
        "goodput": (latency_s <= DEADLINE_S).mean(axis=0),
        "served rate": (latency_s <= 2 * DEADLINE_S).sum(axis=0) / span_s,
    }
    return np.stack([columns[name] for name in STATISTICS], axis=-1).astype(np.float64)


TRAITS = Traits(
    better=tuple(
        "higher" if statistic in ("goodput", "served rate") else "lower" for _, statistic in cells()
    ),
    # No margin: any interval that excludes 0 counts, which is the strictest count of false alarms.
    margin=np.zeros(len(cells())),
    deciding=np.array([window == "overall" and statistic in DECIDING for window, statistic in cells()]),
    floor=np.zeros(len(cells())),
)


@dataclass(frozen=True)
class Outcome:
    """Of many experiments: verdicts and intervals (repeats, cells), and the looks at which the first was found."""

    verdicts: npt.NDArray[np.str_]
    low: Floats
    high: Floats
    alone: Floats  # (repeats, cells, 2)
    after: Floats


def judged(experiments: Experiments) -> Outcome:
    differences = experiments.differences()
    plan = Plan(max_looks=differences.shape[1])
    found = [
        judge_pairs(one, replace(TRAITS, floor=floor), plan)
        for one, floor in zip(differences, floors(experiments), strict=True)
    ]
    return Outcome(
        verdicts=np.array([[cell.verdict.value for cell in one] for one in found]),
        low=np.array([[cell.low for cell in one] for one in found]),
        high=np.array([[cell.high for cell in one] for one in found]),
        alone=np.array([[cell.alone for cell in one] for one in found]),
        after=np.array(
            [
                min((c.decided_after or np.inf for c, d in zip(one, TRAITS.deciding, strict=True) if d))
                for one in found
            ]
        ),
    )


def floors(experiments: Experiments) -> Floats:
    """What counts alone leave open, as the tool has it: (repeats, cells)."""
    total = experiments.requests * np.array([1.0 if w == "overall" else 0.5 for w, _ in cells()])
    best = np.where(IS_RATIO, experiments.values.max(axis=(0, 1)), 1.0)
    misses = ((1 - experiments.values / best) * total).sum(axis=1)
    total_all = total * experiments.values.shape[1]
    share = (misses + 2) / (total_all + 4)
    error = np.sqrt(share * (1 - share) * 4 / total_all)
    return np.where([statistic in ("goodput", "served rate") for _, statistic in cells()], error, 0.0)


def differs(outcome: Outcome) -> npt.NDArray[np.bool_]:
    return np.isin(outcome.verdicts, (Verdict.BETTER.value, Verdict.WORSE.value))


def covered(outcome: Outcome, truth: Floats) -> tuple[float, Floats]:
    """(share of experiments all of whose intervals hold the truth, share by cell of the single intervals)."""
    known = ~np.isnan(outcome.low)
    within = (outcome.low - 1e-6 <= truth) & (truth <= outcome.high + 1e-6)
    alone = (outcome.alone[..., 0] - 1e-6 <= truth) & (truth <= outcome.alone[..., 1] + 1e-6)
    return float((within | ~known).all(axis=1).mean()), alone.mean(axis=0)


def welch_p(experiments: Experiments) -> Floats:
    """Welch's p of each cell over the summaries of the runs: (repeats, cells)."""
    scaled = _scaled(experiments.values)
    mask = experiments.is_candidate[..., None]
    count = mask.shape[1] // 2
    means, variances = [], []
    for side in (mask, ~mask):
        mean = np.where(side, scaled, 0).sum(axis=1) / count
        squares = np.where(side, (scaled - mean[:, None]) ** 2, 0).sum(axis=1)
        means.append(mean)
        variances.append(squares / (count - 1) / count)
    total = variances[0] + variances[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        df = total**2 * (count - 1) / (variances[0] ** 2 + variances[1] ** 2)
        return two_sided_t_p((means[0] - means[1]) / np.sqrt(total), df)


def paired_p(differences: Floats) -> Floats:
    count = differences.shape[1]
    error = differences.std(axis=1, ddof=1) / np.sqrt(count)
    with np.errstate(divide="ignore", invalid="ignore"):
        return two_sided_t_p(differences.mean(axis=1) / error, np.full(error.shape, count - 1.0))


def power_at_5(null_p: Floats, effect_p: Floats) -> Floats:
    """Share found when the threshold is the one that calls noise a change in exactly 5 %."""
    threshold = np.quantile(null_p, 0.05, axis=0)
    return np.asarray((effect_p <= threshold).mean(axis=0), dtype=np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--repeats", type=int, default=400)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--run-s", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="noise models whose name holds this")
    parser.add_argument("--write", type=Path, help="write the tables here, as Markdown")
    given = parser.parse_args()
    lines = tables(given)
    text = "\n".join(lines) + "\n"
    print(text)
    if given.write:
        given.write.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class Rows:
    """The rows of one noise model at one load, in each of the tables."""

    alarms: str
    versus: str
    coverage: str


def rows_of(given: argparse.Namespace, noise: Noise, load: float) -> Rows:
    at = {statistic: cells().index(("overall", statistic)) for statistic in STATISTICS}
    deciding = [at[statistic] for statistic in DECIDING]
    shared = (given.pairs, given.run_s, given.repeats)
    rng = np.random.default_rng(given.seed)
    null, changed = (simulate(noise, load, effect, *shared, rng) for effect in (1.0, EFFECT))
    same, other = (judged(one) for one in (null, changed))
    found = (other.verdicts[:, deciding] == Verdict.WORSE.value).mean(axis=0)
    any_alarm, deciding_alarm = (
        differs(same).any(axis=1).mean(),
        differs(same)[:, deciding].any(axis=1).mean(),
    )
    whole, alone = covered(other, changed.truth)
    null_whole, _ = covered(same, null.truth)
    blocked = [simulate(noise, load, effect, *shared, rng, "blocked") for effect in (1.0, EFFECT)]
    welch = [[welch_p(one)[:, deciding] for one in pair] for pair in (blocked, (null, changed))]
    pairs = [paired_p(one.differences())[:, deciding] for one in (null, changed)]
    powers = [power_at_5(*two) for two in (*welch, pairs)]
    raw = [(two[0] <= 0.05).mean(axis=0) for two in (*welch, pairs)]
    compared = " | ".join(
        f"{' / '.join(f'{share:.0%}' for share in one)}; {' / '.join(f'{p:.0%}' for p in power)}"
        for one, power in zip(raw, powers, strict=True)
    )
    return Rows(
        f"| {noise.name} | {load} | {any_alarm:.1%} | {deciding_alarm:.1%} | "
        f"{' / '.join(f'{share:.0%}' for share in found)} | {_pairs(np.median(other.after), given.pairs)} |",
        f"| {noise.name} | {load} | {compared} |",
        f"| {noise.name} | {load} | {null_whole:.1%} / {whole:.1%} | "
        f"{' / '.join(f'{100 * alone[at[statistic]]:.1f}' for statistic in STATISTICS)} |",
    )


def tables(given: argparse.Namespace) -> list[str]:
    started_s = time.monotonic()
    noises = [noise for noise in NOISES if given.only in noise.name]
    # Each has a generator of its own, so how many work at it changes nothing.
    with ProcessPoolExecutor() as pool:
        waiting = [pool.submit(rows_of, given, noise, load) for noise in noises for load in (0.55, 0.75)]
        rows = [one.result() for one in waiting]
    minutes = (time.monotonic() - started_s) / 60
    sure = 100 * 1.96 * np.sqrt(0.05 * 0.95 / given.repeats)
    page = PAGE.format(
        repeats=given.repeats,
        pairs=given.pairs,
        run_s=given.run_s,
        seed=given.seed,
        minutes=minutes,
        deadline=DEADLINE_S,
        sure=sure,
        figures=len(cells()),
        statistics=", ".join(STATISTICS),
        by_statistic=" / ".join(STATISTICS),
        deciding=", ".join(DECIDING),
        alarms="\n".join(one.alarms for one in rows),
        versus="\n".join(one.versus for one in rows),
        coverage="\n".join(one.coverage for one in rows),
    )
    return page.splitlines()


def _pairs(median: np.floating, most: int) -> str:
    return f"{median:.0f}" if np.isfinite(median) else f"over {most}"


PAGE = """\
# What `loadgen ab` may claim: a simulation

`python benchmarks/compare_simulation.py --repeats {repeats} --write docs/compare-simulation.md` made this page in
{minutes:.0f} minutes: {repeats} repeats each (a share of 5 % is known to within {sure:.1f} points), seed {seed}.

An experiment is {pairs} pairs of {run_s} s runs of one schedule: 20 requests a second in bursts (CV 2) at 8
servers, load 0.55 and 0.75. {figures} figures are looked at after each pair: {statistics}, over the whole
run and over each half. Those that decide are {deciding} of the whole run. Every interval that excludes no
change counts, without any margin. The code that judges is that of the tool.

## False alarms and power

False alarm: any figure called better or worse, at any look, though nothing changed (5 % are allowed). Found: a true
+5 % of work called worse within the {pairs} pairs. Median pairs: until the first deciding figure was decided.

| noise | load | false alarm: any figure | any deciding one | found: mean / p50 / p99 | median pairs |
|---|---|---|---|---|---|
{alarms}

## Against Welch's test on run summaries

One look at the end, each figure by itself, nominal 5 %. First the false alarms; then what is found when each method
is given the threshold at which it calls noise a change in exactly 5 %: mean / p50 / p99.

| noise | load | Welch, all base runs first | Welch, runs interleaved | pairs |
|---|---|---|---|---|
{versus}

## Coverage of the intervals

All: share of experiments in which every interval of every figure holds the truth at all looks (promised: 95 %),
with nothing changed / with +5 %. Where a change in work changes latencies by more at a higher level, and the level
moves (trend, slow drift), the first pairs tell of another change than all pairs do, and this share is lower. Alone:
the interval of one figure by itself at the end, in % (nominal: 95). The truth is the change over the very runs of
the experiment, had each been run as both versions. A request is good within {deadline} s and served within twice
that, which most runs miss somewhere: a failure that comes in one run of fifty is covered by no interval made of
what was seen.

| noise | load | all | alone: {by_statistic} |
|---|---|---|---|
{coverage}
"""


if __name__ == "__main__":
    main()
