"""Pacing on a clock that jumps: every send aims at its own moment, whatever went before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from loadgen.plan.prompts import PromptMaker
from loadgen.replay.clock import RunClock
from loadgen.replay.dialects import dialect_named
from loadgen.replay.exchange import Exchange
from loadgen.replay.payloads import Asking, Payloads
from loadgen.replay.pool import ConnectionPool
from loadgen.replay.request_record import Outcome
from loadgen.replay.target import Target, Timeouts
from loadgen.replay.timer import AbsoluteTimer
from loadgen.replay.worker import Worker, WorkerSettings
from loadgen.testing import FakeClock
from support.sending import schedule_table

MS = 1_000_000


@dataclass
class Stage:
    """A worker whose clock, timer and pool are ours. cost_ns: what each send takes of the clock."""

    planned_s: list[float]
    cost_ns: int = 0
    max_concurrency: int | None = None
    clock: FakeClock = field(default_factory=FakeClock)
    sent: list[tuple[int, int]] = field(default_factory=list)  # (planned_ns, when)
    armed_ns: int | None = None

    def __post_init__(self) -> None:
        table = schedule_table(self.planned_s)
        target = Target("http://t", "http", "t", 80, "t")
        settings = WorkerSettings(target, Timeouts(), max_concurrency=self.max_concurrency)
        dialect = dialect_named("chat")
        payloads = Payloads(table, target, dialect, PromptMaker(), Asking("chat", "m", "r"))
        self.worker = Worker(0, table, settings, dialect, payloads, lambda _: None, lambda _: None)
        self.worker._clock = cast(RunClock, self)
        self.worker._timer = cast(AbsoluteTimer, self)
        self.worker._pool = cast(ConnectionPool, self)
        self.worker._arm()

    # As a clock.
    def now_ns(self) -> int:
        return self.clock.now_ns()

    def monotonic_ns(self, moment_ns: int) -> int:
        return moment_ns

    # As a timer.
    def arm(self, at_monotonic_ns: int) -> None:
        self.armed_ns = at_monotonic_ns

    # As a pool.
    def dispatch(self, exchange: Exchange, _request: bytes) -> None:
        exchange.dispatched_ns = self.clock.now_ns()
        self.sent.append((exchange.planned_ns, exchange.dispatched_ns))
        self.clock.moment_ns += self.cost_ns

    def fire(self, *, late_ns: int = 0) -> None:
        """Let the timer go off, so much after its moment."""
        assert self.armed_ns is not None
        self.clock.moment_ns = max(self.clock.moment_ns, self.armed_ns) + late_ns
        self.worker._send_due()

    def run(self, **settings: Any) -> list[float]:
        """Fire until everything is sent; lateness of each, in ms."""
        while len(self.sent) < len(self.planned_s):
            self.fire(**settings)
        return [(when - planned) / MS for planned, when in self.sent]


def test_sends_aim_at_start_plus_offset_so_lateness_does_not_add_up() -> None:
    # F37: 2,000 rows 5 ms apart, a timer that is always 0.45 ms late: the last is as late as the first.
    lateness_ms = Stage([0.005 * k for k in range(2000)]).run(late_ns=450_000)
    assert lateness_ms == [0.45] * 2000


def test_what_a_send_costs_does_not_push_back_those_after_it() -> None:
    # F37: each send takes 2 of the 5 ms between two.
    lateness_ms = Stage([0.005 * k for k in range(500)], cost_ns=2 * MS).run()
    assert lateness_ms == [0.0] * 500


def test_late_sends_go_at_once_and_the_schedule_is_caught_up_with() -> None:
    # F37: 50 rows 10 ms apart, the first timer 100 ms late; ten are sent together, then all is on time.
    stage = Stage([0.01 * k for k in range(50)])
    stage.fire(late_ns=100 * MS)
    assert [when // MS for _, when in stage.sent] == [100] * 11
    lateness_ms = stage.run()
    assert lateness_ms[:12] == [100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 0, 0]
    assert max(lateness_ms[11:]) == 0


def test_nothing_is_sent_before_its_moment() -> None:
    stage = Stage([0.0, 0.001, 0.5])
    stage.clock.moment_ns = 400 * MS
    stage.worker._send_due()
    assert [planned // MS for planned, _ in stage.sent] == [0, 1]
    assert stage.armed_ns == 500 * MS


def test_requests_of_one_moment_are_sent_in_one_go_in_their_order() -> None:
    stage = Stage([0.1] * 200)
    stage.fire()
    assert len(stage.sent) == 200
    assert stage.worker._next == 200


def test_a_cap_holds_requests_back_without_reordering_them() -> None:
    # F38: what waits behind our own cap is dispatched when a slot is free, and its lateness says so.
    stage = Stage([0.0, 0.01, 0.02], max_concurrency=1)
    for _ in range(3):
        stage.fire()
    assert [planned // MS for planned, _ in stage.sent] == [0]
    stage.clock.moment_ns = 50 * MS
    first = Exchange(0, 0, dialect_named("chat"), stream=True)
    first.stop(Outcome.REJECTED, 50 * MS)
    stage.worker._exchange_ended(first)
    assert stage.sent[-1] == (10 * MS, 50 * MS)
