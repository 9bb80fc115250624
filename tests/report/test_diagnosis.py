"""Planted causes: each is recognised from a run with that one fault, and none is taken for another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadgen.plan.schedule import Window
from loadgen.report.limit import parse_limit
from loadgen.report.report import Report, build_report
from loadgen.report.validity import Thresholds
from loadgen.telemetry.samples import GPU_ACTIVE, GPU_SM_ACTIVE, HOST_CPU, Samples
from support import planted
from support.runs import ns, ok, written


def built(folder: Path, run: planted.Planted) -> Report:
    made = written(folder, run.rows, length_s=planted.LENGTH_S, telemetry=run.telemetry, **run.facts)
    return build_report(made, Thresholds(), [parse_limit(text) for text in run.limits])


def names(report: Report) -> list[str]:
    return [verdict.name for verdict in report.diagnosis]


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("cause", planted.CAUSES)
def test_a_planted_cause_is_recognised_and_taken_for_no_other(tmp_path: Path, cause: str, seed: int) -> None:
    report = built(tmp_path, planted.CAUSES[cause](np.random.default_rng(seed)))
    assert names(report) == [cause], report.diagnosis
    assert all(verdict.evidence and verdict.next_step for verdict in report.diagnosis)


def run_of(rng_seed: int = 1, **changes: Any) -> planted.Planted:
    """A healthy run with these fields of its rows changed."""
    rng = np.random.default_rng(rng_seed)
    return planted.Planted(
        [planted.row(at, **changes) for at in planted.arrivals(rng)],
        planted.steps(0.4, 0.38),
        planted.target(),
    )


class TestQueueing:
    """The article's table: mean high and queue share low, high; device low, high."""

    def of_counters(self, queue: float, active: float | None) -> planted.Planted:
        run = run_of()
        samples = Samples()
        planted.counters(
            samples,
            vllm__request_queue_time_seconds_sum=queue,
            vllm__e2e_request_latency_seconds_sum=1.0,
        )
        if active is not None:
            planted.gauges(samples, "gpu:GPU-aa", **{GPU_ACTIVE: active})
        return planted.Planted([planted.without_stages(row) for row in run.rows], samples)

    @pytest.mark.parametrize(
        ("queue", "active", "name"),
        [
            (0.7, 0.95, "saturated"),
            (0.7, 0.3, "batching too conservative"),
            (0.7, 0.7, "saturated, or batching too conservative"),
            (0.7, None, "saturated, or batching too conservative"),
            (0.1, 0.95, "healthy"),
            (0.1, None, "healthy"),
        ],
    )
    def test_a_server_without_stages_is_read_by_its_counters_and_its_device(
        self, tmp_path: Path, queue: float, active: float | None, name: str
    ) -> None:
        assert names(built(tmp_path, self.of_counters(queue, active))) == [name]

    @pytest.mark.parametrize(
        ("policy", "busy_s", "batch", "name"),
        [
            ("dynamic", 0.25, 4.6, "head of line"),  # behind a batch that has room and runs on
            ("dynamic", 0.02, 4.6, "batching too conservative"),  # mostly behind nobody: for the policy
            ("continuous", 0.25, 4.6, "batching too conservative"),  # they may join, but for its other limits
            ("dynamic", 0.25, 7.6, "saturated"),
        ],
    )
    def test_the_end_of_a_running_batch_is_waited_for_at_the_head_of_a_line(
        self, tmp_path: Path, policy: str, busy_s: float, batch: float, name: str
    ) -> None:
        run = planted.Planted([], planted.steps(0.4, 0.38), planted.target(policy=policy))
        for k in range(30):  # one that runs alone, and three that come meanwhile and wait for 0.3 s
            run.rows.append(planted.row(0.6 * k, first_s=busy_s, tokens=1, batch=1))
            run.rows += [planted.row(0.6 * k + 0.001, wait_s=0.3, step_s=0.0, batch=batch) for _ in range(3)]
        report = built(tmp_path, run)
        assert names(report) == [name], report.diagnosis

    def test_rows_of_answers_that_had_ended_are_told_of_full_batches(self, tmp_path: Path) -> None:
        run = run_of(wait_s=0.3, batch=7.6)
        planted.counters(run.telemetry, loadgen_target__rows_total=100, loadgen_target__useful_rows_total=30)
        (verdict,) = built(tmp_path, run).diagnosis
        assert verdict.name == "saturated"
        assert "30% of the rows" in verdict.evidence
        assert "continuous" in verdict.next_step

    def test_the_device_stands_in_the_evidence(self, tmp_path: Path) -> None:
        report = built(tmp_path, self.of_counters(0.7, 0.3))
        assert "the GPU was active for 30% of the time" in report.diagnosis[0].evidence

    def test_what_waits_in_the_peak_only_is_told_of_the_peak(self, tmp_path: Path) -> None:
        windows = [
            Window("baseline", 0, ns(9)),
            Window("peak-1", ns(9), ns(10)),
            Window("recovery-1", ns(10), ns(20)),
        ]
        rows = [planted.row(k / 20, step_s=0.05) for k in range(180)]
        rows += [planted.row(9 + k / 20, wait_s=2.0, batch=7.8, window="peak-1") for k in range(20)]
        rows += [planted.row(10 + k / 20, step_s=0.05, window="recovery-1") for k in range(180)]
        made = written(tmp_path, rows, windows=windows, length_s=20, **planted.target())
        report = build_report(made, Thresholds())
        assert names(report) == ["saturated", "peak-1 did not hold"]
        assert report.diagnosis[0].evidence.startswith("in peak-1, ")


class TestMemory:
    def samples(self, used: float, preempted_a_second: float = 0.0) -> Samples:
        samples = Samples()
        planted.gauges(samples, "server", **{"vllm:kv_cache_usage_perc": used})
        planted.counters(samples, vllm__num_preemptions_total=preempted_a_second)
        return samples

    @pytest.mark.parametrize(
        ("used", "preempted", "wait_s", "batch", "name"),
        [
            (0.97, 0.0, 0.3, 3.0, "memory-bound"),
            (0.97, 0.0, 0.3, 7.8, "saturated"),  # full batches: their limit is what limits
            (0.97, 0.0, 0.001, 3.0, "healthy"),  # nobody waits for the full cache
            (0.5, 0.0, 0.3, 3.0, "batching too conservative"),
            (0.5, 2.0, 0.001, 3.0, "memory-bound"),  # put back what ran
        ],
    )
    def test_a_full_cache_limits_where_requests_wait_and_batches_have_room(
        self, tmp_path: Path, used: float, preempted: float, wait_s: float, batch: float, name: str
    ) -> None:
        run = run_of(wait_s=wait_s, batch=batch)
        run.telemetry, run.facts = self.samples(used, preempted), planted.target(policy="continuous")
        assert names(built(tmp_path, run)) == [name]


class TestLaunches:
    def gpu(self, active: float, sm: float | None) -> Samples:
        samples = Samples()
        planted.gauges(samples, "gpu:GPU-aa", **{GPU_ACTIVE: active})
        if sm is not None:
            planted.gauges(samples, "gpu:GPU-aa", **{GPU_SM_ACTIVE: sm})
        return samples

    @pytest.mark.parametrize(
        ("active", "sm", "name"),
        [
            (0.95, 0.2, "launch-bound"),
            (0.95, 0.8, "healthy"),
            (0.3, 0.05, "healthy"),
            (0.95, None, "healthy"),
        ],
    )
    def test_a_device_that_only_looks_busy_is_bound_by_launches(
        self, tmp_path: Path, active: float, sm: float | None, name: str
    ) -> None:
        run = run_of()
        run.telemetry, run.facts = self.gpu(active, sm), {}
        assert names(built(tmp_path, run)) == [name]

    def test_a_queue_behind_launches_is_no_saturation(self, tmp_path: Path) -> None:
        run = run_of(wait_s=0.5, batch=7.9)
        run.telemetry = planted.steps(0.98, 0.2)
        assert names(built(tmp_path, run)) == ["launch-bound"]

    @pytest.mark.parametrize(
        ("host", "waited", "name"),
        [
            (0.97, None, "saturated"),
            (0.97, 0.02, "launch-bound"),
            (0.97, 0.4, "saturated"),
            (0.5, 0.4, "saturated"),
            (0.5, None, "launch-bound"),
        ],
    )
    def test_cores_that_others_had_are_no_launches(
        self, tmp_path: Path, host: float, waited: float | None, name: str
    ) -> None:
        # The server's own waits for a CPU tell it; without them, a busy machine leaves the doubt.
        run = run_of(wait_s=0.5, batch=7.9)
        grows = {
            "loadgen_target__step_busy_seconds_total": 0.98,
            "loadgen_target__kernel_seconds_total": 0.2,
            "loadgen_target__cpu_wait_seconds_total": waited,
        }
        samples = Samples()
        planted.counters(samples, **{key: rate for key, rate in grows.items() if rate is not None})
        planted.gauges(samples, "host", **{HOST_CPU: host})
        run.telemetry = samples
        assert names(built(tmp_path, run)) == [name]


class TestBuffering:
    def lumps(self, coalesced: int, **changes: Any) -> planted.Planted:
        run = run_of(tokens=11, **changes)
        run.rows = [row | {"num_coalesced": coalesced} for row in run.rows]
        return run

    def test_tokens_that_the_server_made_in_that_time_are_nobodys_buffer(self, tmp_path: Path) -> None:
        assert names(built(tmp_path, self.lumps(10))) == ["healthy"]

    def test_without_stages_lumps_are_told_with_the_doubt(self, tmp_path: Path) -> None:
        run = self.lumps(10)
        run.rows = [planted.without_stages(row) for row in run.rows]
        report = built(tmp_path, run)
        assert names(report) == ["network or proxy buffering"]
        assert "it may send several tokens at once itself" in report.diagnosis[0].evidence

    def test_answers_within_a_few_milliseconds_are_nobodys_buffer(self, tmp_path: Path) -> None:
        rows = [
            ok(k / 10, first_s=k / 10 + 0.001, last_s=k / 10 + 0.002) | {"num_coalesced": 1}
            for k in range(150)
        ]
        assert "network or proxy buffering" not in names(built(tmp_path, planted.Planted(rows)))


class TestTail:
    def test_a_tail_of_answers_of_like_length_is_head_of_line(self, tmp_path: Path) -> None:
        run = run_of()
        for row in run.rows[::30]:
            row["last_token_ns"] += 3_000_000_000
        report = built(tmp_path, run)
        assert names(report) == ["head of line"]
        assert "their own length explains" in report.diagnosis[0].evidence

    def test_a_tail_of_long_answers_is_their_own(self, tmp_path: Path) -> None:
        run = run_of()
        run.rows[::30] = [planted.row(row["planned_ns"] / 1e9, tokens=200) for row in run.rows[::30]]
        assert names(built(tmp_path, run)) == ["healthy"]


class TestEvidence:
    def test_a_server_that_tells_nothing_is_not_judged_by_nothing(self, tmp_path: Path) -> None:
        rows = [planted.without_stages(row) for row in run_of().rows]
        report = built(tmp_path, planted.Planted(rows))
        assert names(report) == ["not enough evidence"]
        assert "the server tells no stages" in report.diagnosis[0].evidence

    def test_it_is_healthy_where_a_limit_speaks_for_it_and_not_where_one_speaks_against(
        self, tmp_path: Path
    ) -> None:
        rows = [planted.without_stages(row) for row in run_of().rows]
        kept = planted.Planted(rows, limits=("latency p99 < 1s",))
        broken = planted.Planted(rows, limits=("latency p99 < 10ms",))
        assert names(built(tmp_path / "a", kept)) == ["healthy"]
        assert names(built(tmp_path / "b", broken)) == ["not enough evidence"]
