"""A run folder to a report: validity, verdicts, limits, exit codes, strict JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadgen.errors import ExitCode, RunError, UsageError
from loadgen.plan.schedule import Window
from loadgen.replay.request_record import SERVER_STAGES
from loadgen.report.limit import error_rate_limit, parse_limit
from loadgen.report.report import Report, build_report
from loadgen.report.validity import Thresholds
from support.runs import Row, failed, health, ns, ok, written

GOOD = [
    ok(0.1 * k, sent_s=0.1 * k + 0.0001, first_s=0.1 * k + 0.05, last_s=0.1 * k + 0.2) for k in range(100)
]


def report(folder: Path, rows: list[dict[str, Any]], *limits: str, **settings: Any) -> Report:
    return build_report(
        written(folder, rows, **settings), Thresholds(), [parse_limit(text) for text in limits]
    )


def strictly(built: Report) -> Any:
    def refuse(name: str) -> None:
        raise ValueError(name)

    return json.loads(json.dumps(built.as_json(), allow_nan=False), parse_constant=refuse)


@pytest.mark.parametrize(
    "rows",
    [
        [failed(0, "refused", end_s=0.001)],
        [failed(0, "not_sent")],
        [ok(0, first_s=0.1, last_s=0.1, tokens=1)],
        [failed(0, "unfinished", end_s=1.0)],
        [ok(0, first_s=0.1, last_s=0.2) | {"chunk_gap_us": None, "first_token_ns": None, "num_chunks": None}],
    ],
    ids=["no success", "nothing sent", "one token", "unfinished", "no stream"],
)
def test_a_report_of_next_to_nothing_is_strict_json(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    # F81
    document = strictly(report(tmp_path, rows))
    assert document["requests"]["planned"] == 1
    latency = document["windows"][0]["metrics"]["latency"]
    assert "count" in latency or (latency["value"] is None and latency["reason"])


@pytest.mark.parametrize("rows", [GOOD, [*GOOD[:99], failed(9.9, "stream_error", end_s=9.95)]])
def test_a_server_that_tells_some_stages_only_has_no_breakdown(
    tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    # F81: a sum over stages that are not known would be NaN.
    built = report(tmp_path, [row | {"server_finished_us": 90_000} for row in rows])
    document = strictly(built)
    assert document["stages"] == {"value": None, "reason": "the server tells only some of its stages"}
    queue_share = document["windows"][0]["metrics"]["queue_share"]
    assert queue_share == {"value": None, "reason": "the server tells only some of its stages"}


def test_requests_without_all_stages_are_left_out_of_the_breakdown(tmp_path: Path) -> None:
    told = {f"server_{stage}_us": 10_000 * place for place, stage in enumerate(SERVER_STAGES)}
    half = [row | (told if k % 2 else {"server_finished_us": 90_000}) for k, row in enumerate(GOOD)]
    found = strictly(report(tmp_path, half))
    assert found["stages"]["latency"]["count"] == 50
    # Two waits of 10 ms (parsed to pre_start, enqueued to exec_start) in 80 ms.
    assert found["windows"][0]["metrics"]["queue_share"]["value"] == pytest.approx(0.25)


def test_a_window_of_no_length_is_no_division_by_zero(tmp_path: Path) -> None:
    # F81: a run that ended the moment it began.
    built = report(tmp_path, [failed(0, "not_sent")], run_end_ns=0)
    strictly(built)
    assert built.measured[0].value("offered_rate") is None


def test_a_good_run_is_valid_healthy_and_exits_0(tmp_path: Path) -> None:
    rows = [row | {"server_finished_us": 200_000, "server_parsed_us": 10, "server_pre_start_us": 20,
                   "server_pre_end_us": 30, "server_enqueued_us": 40, "server_exec_start_us": 1000,
                   "server_prefill_end_us": 40_000, "server_first_token_us": 49_000,
                   "server_last_token_us": 199_000} for row in GOOD]  # fmt: skip
    built = report(tmp_path, rows)
    assert built.validity.is_valid
    assert [verdict.name for verdict in built.diagnosis] == ["healthy"]
    assert built.exit_code is ExitCode.OK


class TestValidity:
    def late(self, by_s: float) -> list[dict[str, Any]]:
        return [
            ok(0.1 * k, sent_s=0.1 * k + by_s, first_s=0.1 * k + by_s + 0.05, last_s=0.1 * k + by_s + 0.2)
            for k in range(100)
        ]

    def test_late_sends_make_a_run_invalid(self, tmp_path: Path) -> None:
        built = report(tmp_path, self.late(0.02))
        assert not built.validity.is_valid
        assert "left late" in built.validity.reasons[0]
        assert built.diagnosis[0].name == "generator-bound"
        assert built.exit_code is ExitCode.RUN_INVALID

    def test_the_limit_grows_with_the_time_to_first_token(self, tmp_path: Path) -> None:
        slow = [
            ok(0.1 * k, sent_s=0.1 * k + 0.02, first_s=0.1 * k + 2, last_s=0.1 * k + 3) for k in range(100)
        ]
        assert report(tmp_path, slow).validity.is_valid

    def test_the_time_to_open_a_connection_is_not_our_lateness(self, tmp_path: Path) -> None:
        rows = [row | {"dispatched_ns": row["planned_ns"] + 1000} for row in self.late(0.02)]
        assert report(tmp_path, rows).validity.is_valid

    def test_a_wait_behind_our_own_cap_is(self, tmp_path: Path) -> None:
        rows = [row | {"dispatched_ns": row["planned_ns"] + 1000} for row in self.late(0.02)]
        built = report(tmp_path, rows, settings={"max_concurrency": 1})
        assert "--max-concurrency" in built.validity.reasons[0]

    @pytest.mark.parametrize(
        ("rows", "facts", "reason"),
        [
            ([failed(9.95, "client_error", end_s=9.96)], {}, "limit of this machine"),
            ([failed(9.95, "not_sent")], {}, "not sent"),
            ([], {"generator": {"workers": [], "lost": [1]}}, "lost in the run"),
            ([], {"generator": {"workers": [health(0, loop_lag_p99_s=0.08)], "lost": []}}, "overloaded"),
        ],
    )
    def test_causes_on_our_side_make_a_run_invalid(
        self, tmp_path: Path, rows: list[dict[str, Any]], facts: dict[str, Any], reason: str
    ) -> None:
        # F39, F61, F62
        built = report(tmp_path, [*GOOD, *rows], **facts)
        assert reason in " ".join(built.validity.reasons)
        assert built.measured[0].value("error_rate") == 0.0

    def test_what_an_interruption_left_unsent_is_no_fault(self, tmp_path: Path) -> None:
        built = report(
            tmp_path, [*GOOD, failed(9.95, "not_sent")], status="interrupted", exit_reason="SIGINT"
        )
        assert built.validity.is_valid
        assert built.exit_code is ExitCode.OK


def test_a_killed_run_counts_what_it_could_not_tell_as_unrecorded(tmp_path: Path) -> None:
    # F84
    built = report(tmp_path, GOOD[:60], planned=100, status="running", run_end_ns=None, generator=None)
    assert built.status == "interrupted"
    counts = {outcome.name: outcome.count for outcome in built.outcomes}
    assert counts == {"ok": 60, "unrecorded": 40}


def test_what_a_lost_worker_may_have_sent_is_on_nobodys_account_and_makes_the_run_invalid(
    tmp_path: Path,
) -> None:
    lost = [*GOOD[:60], *(failed(6.0 + 0.1 * k, "unrecorded") for k in range(30))]
    rows = [*lost, *(failed(9.0 + 0.1 * k, "not_sent") for k in range(10))]
    built = report(tmp_path, rows, "error_rate < 1%", generator={"workers": [health(0)], "lost": [1]})
    assert built.exit_code is ExitCode.RUN_INVALID
    assert any("of 30 planned requests it is not known" in reason for reason in built.validity.reasons)
    document = built.as_json()
    assert document["requests"] == {"planned": 100, "sent": 60, "not_sent": 10, "unrecorded": 30}
    assert document["outcomes"]["unrecorded"]["counts_against"] == "nobody"
    assert document["windows"][0]["metrics"]["error_rate"]["value"] == 0
    assert document["windows"][0]["metrics"]["lateness"]["count"] == 60


class TestLimits:
    def test_a_kept_limit_exits_0_and_a_broken_one_1(self, tmp_path: Path) -> None:
        assert report(tmp_path, GOOD, "latency p99 < 300ms").exit_code is ExitCode.OK
        assert report(tmp_path, GOOD, "latency p99 < 100ms").exit_code is ExitCode.LIMIT_BROKEN

    def test_a_limit_without_a_value_is_not_kept(self, tmp_path: Path) -> None:
        built = report(tmp_path, GOOD, "queue_share < 50%")
        assert built.limits[0].kept is None
        assert built.exit_code is ExitCode.LIMIT_BROKEN

    def test_five_failures_in_twenty_break_ten_percent(self, tmp_path: Path) -> None:
        # F26
        rows = [*GOOD[:15], *(failed(2 + 0.1 * k, "http_error", end_s=3) for k in range(5))]
        folder = written(tmp_path, rows)
        built = build_report(folder, Thresholds(), [error_rate_limit("10%")])
        assert built.exit_code is ExitCode.LIMIT_BROKEN

    def test_nothing_but_failures_exits_5(self, tmp_path: Path) -> None:
        # F26
        built = report(tmp_path, [failed(0.1 * k, "refused", end_s=0.2) for k in range(20)])
        assert built.exit_code is ExitCode.RUN_FAILED
        assert strictly(built)["windows"][0]["metrics"]["latency"]["value"] is None

    def test_each_window_has_a_verdict_of_its_own(self, tmp_path: Path) -> None:
        windows = [Window("baseline", 0, ns(5)), Window("peak-1", ns(5), ns(10))]
        rows = [row | {"window": "baseline" if row["planned_ns"] < ns(5) else "peak-1"} for row in GOOD]
        for row in rows[50:]:
            row["last_token_ns"] += ns(1)
        built = report(tmp_path, rows, "latency p50 < 500ms", windows=windows)
        assert {v.window: v.kept for v in built.limits} == {
            "overall": True,
            "baseline": True,
            "peak-1": False,
        }

    @pytest.mark.parametrize(
        ("text", "metric", "statistic", "bound"),
        [
            ("ttft p99 < 800ms", "ttft", "p99", 0.8),
            ("error_rate<1%", "error_rate", None, 0.01),
            ("served_rate >= 20", "served_rate", None, 20.0),
            ("latency max <= 1m", "latency", "max", 60.0),
        ],
    )
    def test_limits_are_read(self, text: str, metric: str, statistic: str | None, bound: float) -> None:
        limit = parse_limit(text)
        assert (limit.metric, limit.statistic) == (metric, statistic)
        assert limit.bound == pytest.approx(bound)

    @pytest.mark.parametrize(
        "text",
        ["", "ttft", "ttft < 800ms", "ttft p99 < 800", "error_rate p99 < 1%", "nonsense < 1", "error_rate < x",
         "ttft p42 < 1s", "error_rate < nan", "served_rate > inf"],
    )  # fmt: skip
    def test_what_is_no_limit_is_refused(self, text: str) -> None:
        with pytest.raises(UsageError, match="--slo"):
            parse_limit(text)


class TestDiagnosis:
    def names(self, built: Report) -> set[str]:
        return {verdict.name for verdict in built.diagnosis}

    def queued(self, share: float, **more: Any) -> list[dict[str, Any]]:
        stages = {
            "server_parsed_us": 0, "server_pre_start_us": 0, "server_pre_end_us": 0, "server_enqueued_us": 0,
            "server_exec_start_us": round(share * 100_000), "server_prefill_end_us": 100_000,
            "server_first_token_us": 100_000, "server_last_token_us": 100_000, "server_finished_us": 100_000,
        }  # fmt: skip
        return [row | stages | more for row in GOOD]

    def facts(self, max_batch_size: int, **flags: Any) -> dict[str, Any]:
        return {
            "url": "u",
            "model": "m",
            "dialect": "chat",
            "facts": {"flags": {"max_batch_size": max_batch_size, **flags}},
        }

    def test_waiting_with_room_in_the_batches_is_a_conservative_policy(self, tmp_path: Path) -> None:
        built = report(tmp_path, self.queued(0.7, server_mean_batch=2.0), target=self.facts(8))
        assert self.names(built) == {"batching too conservative"}
        assert "70%" in built.diagnosis[0].evidence

    def test_waiting_with_full_batches_is_saturation(self, tmp_path: Path) -> None:
        built = report(tmp_path, self.queued(0.7, server_mean_batch=7.5), target=self.facts(8))
        assert self.names(built) == {"saturated"}

    def test_waiting_without_the_limit_known_is_left_open(self, tmp_path: Path) -> None:
        assert self.names(report(tmp_path, self.queued(0.7))) == {"saturated, or batching too conservative"}

    def test_waiting_for_preprocessing_has_its_own_name(self, tmp_path: Path) -> None:
        stages = {"server_pre_start_us": 60_000, "server_pre_end_us": 60_000, "server_enqueued_us": 60_000}
        built = report(tmp_path, self.queued(0.6, **stages))
        assert self.names(built) == {"preprocessing-bound"}

    def test_an_inline_queue_before_preprocessing_is_the_engines(self, tmp_path: Path) -> None:
        stages = {"server_pre_start_us": 60_000, "server_pre_end_us": 60_000, "server_enqueued_us": 60_000}
        rows = self.queued(0.6, **stages, server_mean_batch=1.0)
        built = report(tmp_path, rows, target=self.facts(8, pipeline="inline"))
        assert self.names(built) == {"batching too conservative"}

    def test_a_tail_far_above_the_mean_is_head_of_line(self, tmp_path: Path) -> None:
        rows = self.queued(0.1)
        for row in rows[-3:]:
            row["last_token_ns"] += ns(5)
        assert "head of line" in self.names(report(tmp_path, rows))

    def test_a_tail_that_is_the_peaks_is_no_head_of_line(self, tmp_path: Path) -> None:
        built = report(tmp_path, self.peaking(0.9, 0.1, 0.05, 1.0), windows=self.PEAK)
        latency = built.measured[0].distribution("latency")
        assert latency is not None
        assert latency.p99 > 3 * latency.mean
        assert "head of line" not in self.names(built)

    def test_answers_that_wait_for_their_batch_are_head_of_line(self, tmp_path: Path) -> None:
        built = report(tmp_path, self.queued(0.1, server_last_token_us=70_000))
        assert self.names(built) == {"head of line"}
        assert "30%" in built.diagnosis[0].evidence

    def test_refusals_are_named(self, tmp_path: Path) -> None:
        rows = [*self.queued(0.1), *(failed(9.9, "rejected", end_s=9.91) for _ in range(10))]
        assert "rejecting" in self.names(report(tmp_path, rows))

    def test_few_requests_are_not_enough(self, tmp_path: Path) -> None:
        assert self.names(report(tmp_path, GOOD[:5])) == {"not enough evidence"}

    def test_a_peak_that_did_not_hold_is_named(self, tmp_path: Path) -> None:
        windows = [Window("baseline", 0, ns(9)), Window("peak-1", ns(9), ns(10))]
        rows = [
            row | {"window": "baseline" if row["planned_ns"] < ns(9) else "peak-1"}
            for row in self.queued(0.1)
        ]
        for row in rows[-10:]:
            row["last_token_ns"] += ns(0.3)
        assert "peak-1 did not hold" in self.names(report(tmp_path, rows, windows=windows))

    def peaking(self, peak_s: float, after_s: float, queue_share: float, server_share: float) -> list[Row]:
        """Steady answers of 0.1 s until 6 s, then peak_s in the peak until 7 s, then after_s."""
        rows: list[Row] = []
        for k in range(100):
            at = 0.1 * k
            window, took = (
                ("baseline", 0.1) if k < 60 else ("peak-1", peak_s) if k < 70 else ("recovery-1", after_s)
            )
            whole = round(took * server_share * 1e6)
            stages = {f"server_{stage}_us": whole for stage in SERVER_STAGES} | {
                "server_parsed_us": 0, "server_pre_start_us": 0, "server_pre_end_us": 0, "server_enqueued_us": 0,
                "server_exec_start_us": round(whole * queue_share),
            }  # fmt: skip
            rows.append(ok(at, first_s=at + took / 2, last_s=at + took, window=window) | stages)
        return rows

    PEAK = (Window("baseline", 0, ns(6)), Window("peak-1", ns(6), ns(7)), Window("recovery-1", ns(7), ns(10)))

    def test_slow_without_waiting_is_the_computation(self, tmp_path: Path) -> None:
        built = report(tmp_path, self.peaking(0.5, 0.1, 0.05, 1.0), windows=self.PEAK)
        assert self.names(built) == {"compute-bound", "peak-1 did not hold"}
        assert "only 5% of the server's time" in built.diagnosis[0].evidence

    def test_a_broken_limit_without_waiting_is_the_computation(self, tmp_path: Path) -> None:
        built = report(tmp_path, self.queued(0.1), "latency p99 < 100ms")
        assert self.names(built) == {"compute-bound"}
        assert self.names(report(tmp_path, self.queued(0.1), "latency p99 < 1s")) == {"healthy"}

    def test_slow_outside_of_the_server_is_not_its_computation(self, tmp_path: Path) -> None:
        built = report(tmp_path, self.peaking(0.5, 0.1, 0.05, 0.2), windows=self.PEAK)
        assert "outside the server" in self.names(built)
        assert "80%" in built.diagnosis[0].evidence

    def test_a_peak_that_is_still_felt_at_the_end_is_named(self, tmp_path: Path) -> None:
        built = report(tmp_path, self.peaking(0.5, 0.5, 0.9, 1.0), windows=self.PEAK)
        assert {"peak-1 did not hold", "peak-1 not recovered"} < self.names(built)
        assert [(one.has_held, one.has_recovered) for one in built.injected] == [(False, False)]

    def test_a_peak_that_held_and_passed_is_healthy(self, tmp_path: Path) -> None:
        built = report(tmp_path, self.peaking(0.12, 0.1, 0.1, 1.0), windows=self.PEAK)
        assert self.names(built) == {"healthy"}
        assert "injected windows held" in built.diagnosis[0].evidence
        assert [(one.has_held, one.has_recovered) for one in built.injected] == [(True, True)]

    def test_a_peak_whose_requests_were_all_refused_did_not_hold(self, tmp_path: Path) -> None:
        rows = self.peaking(0.1, 0.1, 0.1, 1.0)
        rows[60:70] = [failed(6 + k / 10, "rejected", end_s=6.1 + k / 10, window="peak-1") for k in range(10)]
        built = report(tmp_path, rows, windows=self.PEAK)
        assert {"rejecting", "peak-1 did not hold"} <= self.names(built)
        assert "100.0% refused or failed" in built.injected[0].words

    def test_many_bursts_share_one_verdict(self, tmp_path: Path) -> None:
        windows: list[Window] = []
        rows: list[Row] = []
        for k in range(10):
            windows += [
                Window("baseline", ns(k), ns(k + 0.5)),
                Window(f"burst-{k + 1}", ns(k + 0.5), ns(k + 1)),
            ]
            rows += [ok(k + j / 10, first_s=k + j / 10 + 0.05, last_s=k + j / 10 + 0.1) for j in range(5)]
            rows += [
                ok(
                    k + j / 10,
                    first_s=k + j / 10 + 0.05,
                    last_s=k + j / 10 + 0.3 + k / 100,
                    window=f"burst-{k + 1}",
                )
                for j in range(5, 10)
            ]
        built = report(tmp_path, rows, windows=windows)
        about = [verdict for verdict in built.diagnosis if "did not hold" in verdict.name]
        assert [verdict.name for verdict in about] == ["burst-10 did not hold"]
        assert "10 of 10 injected windows" in about[0].evidence

    def test_recovery_can_be_limited_and_the_slowest_decides(self, tmp_path: Path) -> None:
        rows = self.peaking(0.5, 0.1, 0.05, 1.0)
        kept = report(tmp_path, rows, "recovery_s < 1s", windows=self.PEAK)
        assert kept.exit_code is ExitCode.OK
        assert {verdict.window: verdict.kept for verdict in kept.limits} == {"overall": True, "peak-1": True}
        stuck = report(tmp_path, self.peaking(0.5, 0.5, 0.05, 1.0), "recovery_s < 1s", windows=self.PEAK)
        assert stuck.exit_code is ExitCode.LIMIT_BROKEN


def test_buffered_delivery_is_warned_of(tmp_path: Path) -> None:
    # F21
    rows = [row | {"num_chunks": 200, "num_coalesced": 196} for row in GOOD]
    assert "98%" in " ".join(report(tmp_path, rows).warnings)


@pytest.mark.parametrize(
    ("error", "is_warned"), [("HTTP 401: no", True), ("HTTP 403", True), ("HTTP 404", False)]
)
def test_a_key_that_is_not_accepted_is_named_with_its_option(
    error: str, is_warned: bool, tmp_path: Path
) -> None:
    built = report(tmp_path, [*GOOD, failed(9.95, "http_error", end_s=9.96, error=error)])
    assert [
        warning for warning in built.warnings if "--api-key-file" in warning and error[:8] in warning
    ] == (list(built.warnings) if is_warned else [])
    assert len(built.warnings) == is_warned


@pytest.mark.parametrize(("status", "whose"), [("complete", "the generator"), ("interrupted", "nobody")])
def test_what_was_not_sent_is_our_fault_only_where_the_run_went_on_to_its_end(
    status: str, whose: str, tmp_path: Path
) -> None:
    built = report(tmp_path, [*GOOD, failed(9.95, "not_sent")], status=status)
    assert {outcome.name: outcome.counts_against for outcome in built.outcomes}["not_sent"] == whose


def test_connections_near_the_number_of_ports_are_warned_of(tmp_path: Path) -> None:
    # F61: of all workers of one machine together, and of each machine for itself.
    held = [health(worker, num_connections=9, most_connections=450, num_ports=1000) for worker in (0, 1)]
    (warning,) = report(tmp_path / "near", GOOD, generator={"workers": held, "lost": []}).warnings
    assert "up to 900 connections at once, of the 1000 ports" in warning
    nodes = [
        {"workers": [worker], "host": f"host-{worker}", "address": "127.0.0.1", "clock": None}
        for worker in (0, 1)
    ]
    apart = {"workers": held, "lost": [], "nodes": nodes}
    assert report(tmp_path / "apart", GOOD, generator=apart).warnings == ()
    unknown = {"workers": [health(0, most_connections=900, num_ports=None)], "lost": []}
    assert report(tmp_path / "unknown", GOOD, generator=unknown).warnings == ()


def test_the_timeline_counts_what_happened(tmp_path: Path) -> None:
    line = report(tmp_path, GOOD).timeline
    offered, in_flight = line.series["offered"], line.series["in_flight"]
    assert sum(value or 0 for value in offered) * line.bin_s == pytest.approx(100)
    # Little's law: time in flight, summed, is what the requests took.
    assert sum(value or 0 for value in in_flight) * line.bin_s == pytest.approx(100 * 0.1999, rel=0.01)


def test_a_p99_of_few_answers_is_said_to_be_the_maximum(tmp_path: Path) -> None:
    assert report(tmp_path, GOOD).warnings == ()
    assert report(tmp_path, GOOD[:99]).warnings == (
        "fewer than 100 answers succeeded in overall (99), baseline (99): their p99 is the maximum",
    )


def test_a_run_that_broke_off_by_an_error_is_no_success(tmp_path: Path) -> None:
    assert report(tmp_path, GOOD, status="failed").exit_code is ExitCode.RUN_FAILED


def test_a_run_that_tells_no_status_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path, GOOD)
    folder.write_facts({})
    with pytest.raises(RunError, match=r"run\.json"):
        build_report(folder, Thresholds())


def test_a_killed_run_was_offered_what_was_planned_not_what_was_recorded(tmp_path: Path) -> None:
    # F84: of ten requests a second every other one was in flight when the run was killed.
    folder = written(tmp_path, GOOD, status="running", run_end_ns=None, generator=None)
    folder.write_requests(folder.read_requests().take(list(range(0, 99, 2))))
    built = build_report(folder, Thresholds())
    # The last record ended at 10.0 s.
    assert built.measured[0].value("offered_rate") == pytest.approx(10.0)
    assert built.measured[0].value("served_rate") == pytest.approx(5.0)
    assert sum(
        value or 0 for value in built.timeline.series["offered"]
    ) * built.timeline.bin_s == pytest.approx(100)
