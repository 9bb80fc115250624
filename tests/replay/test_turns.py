"""What is sent beside the plain schedule: retries, turns of sessions, a warm-up; and when a run gives up."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from loadgen.plan.prompts import PromptMaker
from loadgen.replay.dialects import dialect_named
from loadgen.replay.failure_watch import FailureWatch
from loadgen.replay.payloads import Asking, Payloads
from loadgen.replay.retry import RetryPolicy
from loadgen.replay.run_folder import RunFolder
from loadgen.replay.target import Target, Timeouts
from loadgen.replay.transport import TRANSPORT_NAMES
from loadgen.testing import FakeRequest, FakeTarget, Step, chat_stream, whole
from support import command, runs, traces
from support.sending import schedule_table, send

every_transport = pytest.mark.parametrize("transport", TRANSPORT_NAMES)


def busy(status: int = 429, retry_after: str | None = "0.2") -> list[Step]:
    extra = "" if retry_after is None else f"Retry-After: {retry_after}\r\n"
    return [whole(status, {"error": {"message": "busy"}}, extra)]


class TestRetries:
    @pytest.mark.parametrize(
        ("retries", "asked_s", "wait_s"),
        [
            (0, 2.5, 2.5),
            (2, 0.0, 0.0),
            (0, None, 1.0),
            (1, None, 2.0),
            (2, None, 4.0),
            (0, -1.0, 1.0),
            (3, 2.5, None),
            (3, None, None),
        ],
    )
    def test_how_long_to_wait(self, retries: int, asked_s: float | None, wait_s: float | None) -> None:
        assert RetryPolicy(3).wait_s(retries, asked_s) == wait_s

    def test_the_wait_is_bounded_and_nothing_is_retried_unasked(self) -> None:
        assert RetryPolicy(99).wait_s(50, None) == 30.0
        assert RetryPolicy().wait_s(0, 1.0) is None

    @every_transport
    def test_a_rejected_request_is_sent_again_after_what_the_server_asked(self, transport: str) -> None:
        with FakeTarget(lambda request: busy() if request.serial < 2 else chat_stream(2)) as fake:
            sent = send(fake.url, [0.0], retries=RetryPolicy(3), transport=transport)
        (record,) = sent.records
        assert (record["outcome"], record["num_retries"], record["status_code"]) == ("ok", 2, 200)
        assert record["retry_after_s"] == pytest.approx(0.2)
        assert record["error"] is None
        received_s = [request.received_s for request in fake.requests]
        assert np.diff(received_s).min() >= 0.19
        assert {request.raw_body for request in fake.requests} == {fake.requests[0].raw_body}
        # From the first planned moment, whatever came between.
        assert record["last_token_ns"] - record["planned_ns"] >= 380_000_000
        # The first sending, before both waits.
        assert record["sent_ns"] < record["last_token_ns"] - 380_000_000
        assert sent.progress[-1].num_sent == 1
        assert sent.progress[-1].outcomes == {"ok": 1}

    def test_the_last_rejection_stands_when_all_retries_are_spent(self) -> None:
        with FakeTarget(lambda _: busy(503, "0.05")) as fake:
            sent = send(fake.url, [0.0], retries=RetryPolicy(2))
        assert (sent.outcomes, sent.records[0]["num_retries"], len(fake.requests)) == (["rejected"], 2, 3)

    def test_nothing_is_retried_unasked_and_other_failures_never(self) -> None:
        with FakeTarget(lambda request: whole_500() if request.row else busy()) as fake:
            unasked = send(fake.url, [0.0])
            assert len(fake.requests) == 1
            assert (unasked.outcomes, unasked.records[0]["num_retries"]) == (["rejected"], 0)
            send(fake.url, [], table=schedule_table([0.0], trace_row=[1]), retries=RetryPolicy(3))
            assert len(fake.requests) == 2

    def test_a_retry_that_the_end_of_the_run_forestalls_leaves_a_rejection(self) -> None:
        with FakeTarget(lambda _: busy(429, "60")) as fake:
            sent = send(fake.url, [0.0], retries=RetryPolicy(3), drain_s=0.3)
        assert (sent.outcomes, sent.records[0]["num_retries"], len(fake.requests)) == (["rejected"], 0, 1)

    def test_a_limit_counts_anew_for_each_attempt(self) -> None:
        with FakeTarget(lambda request: busy(429, "0.6") if request.serial == 0 else chat_stream(1)) as fake:
            sent = send(fake.url, [0.0], retries=RetryPolicy(1), timeouts=Timeouts(first_token_s=0.5))
        assert sent.outcomes == ["ok"]

    def test_a_cap_holds_for_retries_too(self) -> None:
        # Twelve at once, all rejected at first: never more than three in flight.
        seen: set[int] = set()

        def script(request: FakeRequest) -> Sequence[Step]:
            if request.row in seen:
                return chat_stream(1, first_s=0.02)
            seen.add(request.row)
            return busy(429, "0.05")

        with FakeTarget(script) as fake:
            sent = send(fake.url, [0.0] * 12, retries=RetryPolicy(1), max_concurrency=3)
        assert sent.outcomes == ["ok"] * 12
        assert fake.max_in_flight <= 3


def whole_500() -> list[Step]:
    return [whole(500, {})]


class TestSessions:
    TABLE = schedule_table(
        [0.0, 0.02, 0.04, 0.06, 0.08], session=[7, 7, 3, 7, None], input_tokens=[4, 8, 4, 12, 4]
    )

    def test_a_turn_waits_for_the_one_before_when_asked(self) -> None:
        with FakeTarget(lambda request: chat_stream(1, first_s=0.5)) as fake:
            sent = send(fake.url, [], table=self.TABLE, sessions_wait=True)
        assert sent.outcomes == ["ok"] * 5
        first, second, other, third, alone = sent.records
        assert second["sent_ns"] >= first["end_ns"]
        assert third["sent_ns"] >= second["end_ns"]
        assert second["released_ns"] >= first["end_ns"]
        assert all(row["released_ns"] is None for row in (first, other, alone))
        # The others leave in time, and the wait is not our lateness: each was taken up at its moment.
        assert all(row["sent_ns"] < first["end_ns"] for row in (other, alone))
        assert all(row["dispatched_ns"] < first["end_ns"] for row in sent.records)
        # The headline counts from the planned moment.
        assert third["last_token_ns"] - third["planned_ns"] >= 1_400_000_000

    def test_by_default_each_turn_leaves_at_its_moment(self) -> None:
        with FakeTarget(lambda request: chat_stream(1, first_s=0.5)) as fake:
            sent = send(fake.url, [], table=self.TABLE)
        assert fake.max_in_flight == 5
        assert all(row["released_ns"] is None for row in sent.records)

    def test_a_failed_turn_does_not_lessen_the_load(self) -> None:
        # F27
        with FakeTarget(lambda request: whole_500() if request.row == 0 else chat_stream(1)) as fake:
            sent = send(fake.url, [], table=self.TABLE, sessions_wait=True)
        assert sent.outcomes == ["http_error", "ok", "ok", "ok", "ok"]
        assert len(fake.requests) == 5

    def test_a_turn_waits_for_the_retries_of_the_one_before(self) -> None:
        with FakeTarget(lambda request: busy() if request.serial == 0 else chat_stream(1)) as fake:
            table = schedule_table([0.0, 0.02], session=[1, 1])
            sent = send(fake.url, [], table=table, sessions_wait=True, retries=RetryPolicy(1))
        assert sent.outcomes == ["ok", "ok"]
        assert [request.row for request in fake.requests] == [0, 0, 1]

    def test_turns_that_still_wait_when_the_run_ends_were_not_sent(self) -> None:
        with FakeTarget(lambda request: chat_stream(1, first_s=30.0)) as fake:
            table = schedule_table([0.0, 0.02, 0.04], session=[1, 1, 1])
            sent = send(fake.url, [], table=table, sessions_wait=True, drain_s=0.3)
        assert sent.outcomes == ["unfinished", "not_sent", "not_sent"]
        assert all(row["dispatched_ns"] is None and row["sent_ns"] is None for row in sent.records[1:])
        assert len(fake.requests) == 1

    def test_an_injected_copy_waits_for_nobody(self) -> None:
        with FakeTarget(lambda request: chat_stream(1, first_s=0.3)) as fake:
            table = schedule_table([0.0, 0.02], session=[1, 1], trace_row=[0, 0], copy=[0, 1])
            send(fake.url, [], table=table, sessions_wait=True)
        assert fake.max_in_flight == 2

    def prompts(self, table: Any, *, grow: bool) -> list[str]:
        target = Target("http://t", "http", "t", 80, "t")
        asking = Asking("chat", "m", "r", grow_sessions=grow)
        payloads = Payloads(table, target, dialect_named("chat"), PromptMaker(1, chars_per_token=16), asking)
        bodies = [payloads.take().partition(b"\r\n\r\n")[2] for _ in range(table.num_rows)]
        return [json.loads(body)["messages"][0]["content"] for body in bodies]

    def test_a_longer_turn_begins_with_the_former_one(self) -> None:
        first, second, other, third, alone = self.prompts(self.TABLE, grow=True)
        assert second.startswith(first)
        assert third.startswith(second)
        assert [len(text) for text in (first, second, other, third, alone)] == [64, 128, 64, 192, 64]
        assert len({text[:16] for text in (first, other, alone)}) == 3
        plain = self.prompts(self.TABLE, grow=False)
        assert len({text[:16] for text in plain}) == 5
        assert plain[4] == alone

    def test_a_turn_that_is_no_longer_has_a_prompt_of_its_own(self) -> None:
        table = schedule_table([0.0, 0.1, 0.2], session=[1, 1, 1], input_tokens=[4, 4, 5])
        first, second, third = self.prompts(table, grow=True)
        assert first[:16] != second[:16]
        assert third.startswith(first)


class TestWarmup:
    def test_it_is_sent_first_one_after_another_and_stands_apart(self, tmp_path: Path) -> None:
        # F34, at a tenth of its length: the first answer takes 0.5 s, the next ones 0.05 s.
        trace = traces.written(tmp_path, [0.2 * k for k in range(6)])
        with FakeTarget(lambda request: chat_stream(2, first_s=0.05 if request.serial else 0.5)) as fake:
            ran = command.run(
                "replay", trace, "--url", fake.url, "--warmup-requests", "3", "--workers", "2",
                "--out-dir", tmp_path / "runs", "--json",
            )  # fmt: skip
        assert ran.returncode in (0, 4), ran.stderr
        assert len(fake.requests) == 9
        (folder,) = (tmp_path / "runs").iterdir()
        records = pq.read_table(folder / "requests.parquet").to_pylist()
        assert len(records) == 6
        assert {row["phase"] for row in records} == {"run"}
        warmup = pq.read_table(folder / "warmup.parquet").to_pylist()
        assert [(row["phase"], row["window"], row["outcome"]) for row in warmup] == [
            ("warmup", "warmup", "ok")
        ] * 3
        moments = [
            row[name] for row in warmup for name in ("planned_ns", "sent_ns", "first_token_ns", "end_ns")
        ]
        assert max(moments) < 0
        assert len({(row["trace_row"], row["copy"]) for row in [*records, *warmup]}) == 9
        prompts = [request.body["messages"][0]["content"] for request in fake.requests]
        assert len({prompt[:16] for prompt in prompts}) == 9
        # In no figure: the slow first answer is the warm-up's.
        figures = json.loads(ran.stdout)["windows"][0]["metrics"]
        assert figures["service_latency"]["max"] < 0.4
        assert json.loads(ran.stdout)["requests"]["planned"] == 6
        facts = json.loads((folder / "run.json").read_text())["warmup"]
        assert (facts["requests"], facts["outcomes"]) == (3, {"ok": 3})
        assert max(facts["first_latency_s"], facts["median_latency_s"]) < 2.0
        assert json.loads(ran.stdout)["run"]["warmup"] == facts

    def test_a_warm_up_that_fails_does_not_fail_the_run(self, tmp_path: Path) -> None:
        trace = traces.written(tmp_path, [0.0, 0.05])
        with FakeTarget(lambda request: whole_500() if request.serial < 3 else chat_stream(1)) as fake:
            ran = command.run(
                "replay", trace, "--url", fake.url, "--warmup-requests", "3", "--out-dir", tmp_path / "runs"
            )
        assert ran.returncode in (0, 4), ran.stderr
        assert "2 ok" in ran.stdout
        # Told once, in the report.
        assert (ran.stdout + ran.stderr).count("warm-up: 3 http_error") == 1

    def test_more_than_there_are_rows_take_lengths_again(self) -> None:
        table = schedule_table([0.0, 0.1])
        target = Target("http://t", "http", "t", 80, "t")
        payloads = Payloads(table, target, dialect_named("chat"), PromptMaker(1), Asking("chat", "m", "r"))
        assert len({payloads.warmup(number).partition(b"\r\n\r\n")[2] for number in range(5)}) == 5


class TestFailureWatch:
    @pytest.mark.parametrize(
        ("looks", "ends_at"),
        [
            ([(0, 1, {"reset": 1}), (0, 2, {"reset": 5}), (0, 4, {"reset": 9})], 2),
            ([(0, 1, {"reset": 1}), (0, 2, {"reset": 1, "ok": 1}), (0, 4, {"reset": 2, "ok": 1})], None),
            ([(0, 1, {"reset": 1}), (0, 9, {"reset": 1})], None),  # quiet is no failure
            (
                [(0, 1, {"reset": 1}), (1, 2, {"ok": 1}), (0, 4, {"reset": 2})],
                None,
            ),  # another worker succeeds
            ([(0, 1, {"reset": 1}), (1, 4, {"refused": 1})], 1),
            (
                [(0, 1, {"client_error": 1}), (0, 9, {"client_error": 4, "not_sent": 3, "unfinished": 1})],
                None,
            ),
            ([(0, 1, {"rejected": 1}), (0, 4, {"rejected": 2})], 1),
        ],
    )
    def test_when_it_gives_up(
        self, looks: list[tuple[int, float, dict[str, int]]], ends_at: int | None
    ) -> None:
        watch = FailureWatch(3.0)
        told = [watch.observe(*look) is not None for look in looks]
        assert told == [position == ends_at for position in range(len(looks))]

    def test_it_never_does_unasked(self) -> None:
        watch = FailureWatch(None)
        assert [watch.observe(0, at_s, {"reset": at_s}) for at_s in (1, 100, 10_000)] == [None] * 3

    def test_a_run_of_nothing_but_failures_ends_early_and_fails(self, tmp_path: Path) -> None:
        trace = traces.written(tmp_path, [0.05 * k for k in range(1200)])
        begun_s = time.monotonic()
        with FakeTarget(lambda request: whole_500() if request.serial > 4 else chat_stream(1)) as fake:
            ran = command.run(
                "replay", trace, "--url", fake.url, "--abort-after", "1s", "--out-dir", tmp_path / "runs"
            )
        assert ran.returncode == 5, ran.stderr
        assert time.monotonic() - begun_s < 45
        (folder,) = (tmp_path / "runs").iterdir()
        facts = json.loads((folder / "run.json").read_text())
        assert facts["status"] == "failed"
        assert "no request succeeded for" in facts["exit_reason"]
        assert "ended early" in ran.stderr
        outcomes = pq.read_table(folder / "requests.parquet").column("outcome").to_pylist()
        assert len(outcomes) == 1200
        assert outcomes.count("ok") == 5
        assert outcomes.count("not_sent") > 600


def test_records_of_before_these_columns_can_be_read(tmp_path: Path) -> None:
    run = runs.written(tmp_path, [runs.ok(0.0, first_s=0.1, last_s=0.2)])
    old = pq.read_table(run.requests_path).drop_columns(["phase", "num_retries", "released_ns"])
    pq.write_table(old, run.requests_path)
    (record,) = RunFolder.open(run.path).read_requests().to_pylist()
    assert (record["outcome"], record["phase"], record["num_retries"]) == ("ok", None, None)


@pytest.mark.parametrize(
    "flags",
    [["--sessions", "sometimes"], ["--retries", "-1"], ["--abort-after", "5"], ["--warmup-requests", "-2"]],
)
def test_wrong_use_names_the_flag(flags: list[str], tmp_path: Path) -> None:
    trace = traces.written(tmp_path, [0.0])
    ran = command.run("replay", trace, "--url", "http://127.0.0.1:9", *flags, "--out-dir", tmp_path / "runs")
    assert ran.returncode == 2
    assert flags[0] in ran.stderr
