"""Simulated against live runs of the same schedules: every policy, three loads; and how fast the simulation is.

    python benchmarks/simulation_accuracy.py [--rounds 3] [--seconds 20] [--write docs/simulation-accuracy.md]
    python benchmarks/simulation_accuracy.py --speed

In each round every policy's server serves the three loads that are judged, and at a place drawn by chance among
them one more load, from another seed, whose steps alone the cost model of the round is fitted to.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from loadgen.compare.ab_target import AbTarget, started
from loadgen.experiment.bursty_trace import bursty_trace
from loadgen.experiment.matrix import Cell
from loadgen.experiment.result import Result, result_of
from loadgen.experiment.sending import Sending, Sent
from loadgen.plan.planner import plan
from loadgen.plan.prompts import PromptMaker
from loadgen.plan.schedule import Schedule
from loadgen.plan.shape import Shape
from loadgen.replay.run_folder import RunFolder
from loadgen.report.report import build_report, write_report
from loadgen.report.validity import Thresholds
from loadgen.simulate.cost_model import CostModel
from loadgen.simulate.fitting import fit_cost_model
from loadgen.simulate.simulated_run import SimulatedRun, server_config, simulate_run

POLICIES = {
    "serial": "--policy serial --pipeline staged",
    "window 100 ms": "--policy fixed-window --window-ms 100 --max-batch-size 8",
    "dynamic 8, 150 ms": "--policy dynamic --max-batch-size 8 --max-wait-ms 150",
    "continuous 8": "--policy continuous --max-batch-size 8",
}
RATES = (2.0, 4.5, 7.0)
FIT_RATE = 5.0
WINDOW_NS = 100_000_000
BOUNDS = {"throughput": 0.10, "latency_mean": 0.15, "latency_p99": 0.25}
PROMPTS = PromptMaker(chars_per_token=1)
LENIENT = Thresholds(max_lateness_s=1.0, max_loop_lag_s=1.0)


@dataclass(frozen=True)
class Judged:
    """A policy at a load: what each round measured and what it simulated, by figure."""

    policy: str
    rate: float
    live: dict[str, list[float]]
    simulated: dict[str, list[float]]

    def error(self, figure: str) -> float:
        return float(np.median(self.simulated[figure]) / np.median(self.live[figure]) - 1)

    def spread(self, figure: str) -> float:
        values = self.live[figure]
        return float((max(values) - min(values)) / np.median(values))


def schedule_of(rate: float, seconds: float, seed: int) -> Schedule:
    trace = bursty_trace(length_s=max(120.0, 3 * seconds), seed=seed)
    return plan(trace, Shape(duration_s=seconds, request_rate=rate, seed=seed))


def live_runs(
    name: str, flags: str, schedules: dict[str, Schedule], folder: Path, order: list[str]
) -> tuple[dict[str, RunFolder], Path, Path]:
    """All runs at one server, in this order; its step and request logs."""
    steps, requests = folder / f"{name}-steps.parquet", folder / f"{name}-requests.parquet"
    target = AbTarget("serve", f"{flags} --step-log '{steps}' --request-log '{requests}'")
    sending = Sending(prompts=PROMPTS, ignore_eos=True)
    made = {}
    with started(target, ready_within_s=120) as url:
        for load in order:
            sent = Sent(f"{name}-{load}", folder, schedules[load], "bursty", schedules[load].num_requests)
            made[load], _ = sending.run(url, sent, lambda _: None)
            time.sleep(0.3)  # what the server still holds of this run is gone before the next
    return made, steps, requests


def only_of(run: RunFolder, log: Path, column: str, aside: Path) -> Path:
    """The rows of a server's log that lie within a run."""
    facts = run.read_facts()
    start_ns = facts["start_monotonic_ns"]
    table = pq.read_table(log)
    moments = table.column(column)
    within = pc.and_(
        pc.greater_equal(moments, start_ns), pc.less(moments, start_ns + facts["run_end_ns"] + 10**8)
    )
    pq.write_table(table.filter(within), aside)
    return aside


def in_phase(schedule: Schedule, run: RunFolder) -> Schedule:
    """The schedule moved so that the server's ticks, multiples of the window on its clock, lie as in a live run."""
    phase_ns = int(run.read_facts()["start_monotonic_ns"] % WINDOW_NS)
    planned = pa.array(schedule.planned_ns + phase_ns)
    place = schedule.table.column_names.index("planned_ns")
    field = schedule.table.schema.field("planned_ns")
    last = schedule.windows[-1]
    windows = (*schedule.windows[:-1], replace(last, end_ns=last.end_ns + phase_ns))
    return replace(schedule, table=schedule.table.set_column(place, field, planned), windows=windows)


def rounds(count: int, seconds: float, folder: Path) -> Iterator[tuple[str, float, str, Result, Result]]:
    """(policy, rate, words of the fit, live, simulated) of every cell of every round."""
    rng = np.random.default_rng(0)
    loads = {f"{rate:g}": schedule_of(rate, seconds, 0) for rate in RATES}
    for number in range(count):
        here = folder / f"round-{number + 1}"
        here.mkdir()
        fit_name = "fit"
        schedules = {**loads, fit_name: schedule_of(FIT_RATE, seconds, 100 + number)}
        made: dict[str, dict[str, RunFolder]] = {}
        logs: list[Path] = []
        for place in rng.permutation(len(POLICIES)):
            policy = list(POLICIES)[place]
            name = policy.replace(" ", "-").replace(",", "")
            order = [list(schedules)[k] for k in rng.permutation(len(schedules))]
            made[policy], steps, requests = live_runs(name, POLICIES[policy], schedules, here, order)
            run = made[policy][fit_name]
            logs.append(only_of(run, steps, "t_start_ns", here / f"{name}-fit-steps.parquet"))
            logs.append(only_of(run, requests, "recv_ns", here / f"{name}-fit-requests.parquet"))
            print(f"round {number + 1}: {policy} served", file=sys.stderr, flush=True)
        fit = fit_cost_model(logs)
        print(f"round {number + 1}: {fit.words}", file=sys.stderr, flush=True)
        for policy, flags in POLICIES.items():
            for load, rate in zip(loads, RATES, strict=True):
                schedule = in_phase(loads[load], made[policy][load])
                simulated = simulate_run(
                    SimulatedRun(
                        name=f"simulated-{load}", out_dir=here, schedule=schedule, trace_name="bursty",
                        trace_rows=loads[load].num_requests, config=server_config(flags), cost=fit.model,
                        cost_from="the round's fit", prompts=PROMPTS,
                    )
                )  # fmt: skip
                pair = []
                for run in (made[policy][load], simulated):
                    write_report(build_report(run, LENIENT), run)
                    pair.append(result_of(run.path, Cell(policy, load, number)))
                yield policy, rate, fit.words, pair[0], pair[1]


def judge(count: int, seconds: float, folder: Path) -> list[Judged]:
    found: dict[tuple[str, float], Judged] = {}
    for policy, rate, _, live, simulated in rounds(count, seconds, folder):
        one = found.setdefault((policy, rate), Judged(policy, rate, {}, {}))
        for figure in (*BOUNDS, "failed"):
            for side, result in ((one.live, live), (one.simulated, simulated)):
                value = result.values[figure]
                side.setdefault(figure, []).append(float("nan") if value is None else value)
    return list(found.values())


def page(judged: list[Judged], count: int, seconds: float, minutes: float) -> str:
    within = {
        figure: sum(abs(one.error(figure)) <= bound for one in judged) for figure, bound in BOUNDS.items()
    }
    lines = [
        "# Simulated against live",
        "",
        f"`python benchmarks/simulation_accuracy.py --rounds {count} --seconds {seconds:g} --write "
        f"docs/simulation-accuracy.md` made this page in {minutes:.0f} minutes.",
        "",
        f"The same schedule (bursts of short chats, {seconds:g} s) live at the bundled server (`cpu-25m`, on the "
        f"machine that sends) and simulated; medians of {count} rounds. The cost model of a round is fitted to the "
        "steps of other runs, made between those that are judged. Ticks of the window lie where they lay live. "
        "Error: simulated against live. Spread: highest less lowest live run over the median, which no simulation "
        "can beat. Wanted: throughput within 10 %, mean within 15 %, p99 within 25 %.",
        "",
        "| policy | load | served/s live | simulated | error | spread | mean live | simulated | error | spread | "
        "p99 live | simulated | error | spread | failed live / simulated |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in judged:
        cells = [one.policy, f"{one.rate:g} /s"]
        for figure, bound in BOUNDS.items():
            error = one.error(figure)
            cells += [
                *(_shown(figure, float(np.median(side[figure]))) for side in (one.live, one.simulated)),
                f"{error:+.1%}" if abs(error) <= bound else f"**{error:+.1%}**",
                f"{one.spread(figure):.1%}",
            ]
        cells.append(f"{np.median(one.live['failed']):g} / {np.median(one.simulated['failed']):g}")
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "Within the bound: "
        + ", ".join(f"{name.replace('latency_', '')} {within[name]} of {len(judged)}" for name in BOUNDS)
        + ". Bold: outside of it.",
    ]
    return "\n".join(lines) + "\n"


def _shown(figure: str, value: float) -> str:
    return f"{value:.3g}" if figure == "throughput" else f"{value * 1e3:.0f} ms"


def speed(count: int) -> None:
    """A million requests through each policy, near what it can carry."""
    trace = bursty_trace(length_s=count / 8.0)
    for policy, flags in POLICIES.items():
        rate = {"serial": 3.0, "continuous 8": 10.0}.get(policy, 6.0)
        schedule = plan(trace, Shape(request_rate=rate, num_requests=None))
        before, started_s = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        with tempfile.TemporaryDirectory(prefix="loadgen-") as name:
            simulate_run(
                SimulatedRun(
                    name="speed", out_dir=Path(name), schedule=schedule, trace_name="bursty",
                    trace_rows=trace.num_rows, config=server_config(flags),
                    cost=CostModel(kv_token_ns=500), cost_from="the built-in cost model", prompts=PROMPTS,
                )
            )  # fmt: skip
        wall_s = time.monotonic() - started_s
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        per_million = 1e6 / schedule.num_requests
        print(
            f"{policy} at {rate:g}/s: {schedule.num_requests} requests, {wall_s:.1f} s wall, {cpu_s:.1f} s CPU; "
            f"a million: {wall_s * per_million:.1f} s wall, {cpu_s * per_million:.1f} s CPU",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a run")
    parser.add_argument("--write", type=Path, help="write the page here, as Markdown")
    parser.add_argument("--speed", action="store_true", help="simulate a million requests and tell the time")
    parser.add_argument("--requests", type=int, default=1_000_000, help="of --speed")
    given = parser.parse_args()
    if given.speed:
        speed(given.requests)
        return
    started_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="loadgen-") as name:
        judged = judge(given.rounds, given.seconds, Path(name))
    text = page(judged, given.rounds, given.seconds, (time.monotonic() - started_s) / 60)
    print(text)
    if given.write:
        given.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
