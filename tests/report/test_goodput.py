"""Which requests are good, and the share of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadgen.errors import ExitCode, UsageError
from loadgen.plan.schedule import Window
from loadgen.report.figures import Missing
from loadgen.report.goodput import Bound, is_good, parse_goodput
from loadgen.report.limit import parse_limit
from loadgen.report.measures import measure
from loadgen.report.observations import Observations
from loadgen.report.report import build_report
from loadgen.report.validity import Thresholds
from support.command import run
from support.runs import Row, failed, ns, ok, records, written

FAST, LATE_START, LATE_END = (
    ok(0, first_s=0.5, last_s=2.0),
    ok(0.1, first_s=1.1, last_s=2.1),
    ok(0.2, first_s=0.7, last_s=3.7),
)
ONE_TOKEN = ok(0.3, first_s=0.8, last_s=0.8, tokens=1)
WHOLE = ok(0.4, first_s=0.5, last_s=0.6) | {"first_token_ns": None, "chunk_gap_us": None, "num_chunks": None}


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ("ttft:800ms", [True, False, True, True, False]),
        ("latency:3s", [True, True, False, True, True]),
        ("ttft:800ms latency:3s", [True, False, False, True, False]),
        ("ttft:500ms", [True, False, True, True, False]),  # a bound itself is kept
        ("tpot:1s", [False, True, False, True, False]),  # one token: no time per token to break
    ],
)
def test_a_good_request_keeps_every_bound(bounds: str, expected: list[bool]) -> None:
    seen = Observations(records([FAST, LATE_START, LATE_END, ONE_TOKEN, WHOLE]))
    assert is_good(seen, parse_goodput([bounds])).tolist() == expected


def test_a_wait_in_the_client_counts_save_where_the_service_is_bounded() -> None:
    seen = Observations(records([ok(0, sent_s=2.0, first_s=2.1, last_s=2.2)]))
    assert is_good(seen, [Bound("ttft", 0.5)]).tolist() == [False]
    assert is_good(seen, [Bound("service_ttft", 0.5)]).tolist() == [True]


def shares(rows: list[Row], run_end_s: float = 10.0) -> dict[str, float | None]:
    windows = [Window("baseline", 0, ns(5)), Window("peak-1", ns(5), ns(10))]
    found = measure(Observations(records(rows)), windows, run_end_s, bounds=[Bound("latency", 1.0)])
    return {one.label: one.value("goodput") for one in found}


def test_failures_and_the_unfinished_miss() -> None:
    rows = [ok(k, first_s=k + 0.1, last_s=k + 0.5) for k in range(3)]
    rows += [failed(3, "rejected", end_s=3.001), failed(4, "unfinished", end_s=10)]
    rows += [ok(5 + k, first_s=5.1 + k, last_s=5.5 + k + (2 if k else 0), window="peak-1") for k in range(4)]
    assert shares(rows) == {"overall": 4 / 9, "baseline": 3 / 5, "peak-1": 1 / 4}


def test_what_a_cut_run_never_came_to_does_not_miss() -> None:
    rows = [ok(k, first_s=k + 0.1, last_s=k + 0.5) for k in range(3)] + [failed(4, "unfinished", end_s=4.5)]
    rows += [failed(5 + k, "not_sent", window="peak-1") for k in range(4)]
    assert shares(rows, run_end_s=4.5) == {"overall": 3 / 4, "baseline": 3 / 4, "peak-1": None}


def test_without_bounds_there_is_no_goodput() -> None:
    (overall, _) = measure(Observations(records([FAST])), [Window("baseline", 0, ns(5))], 5.0)
    assert overall.figures["goodput"] == Missing("no --goodput says what is good")


def test_goodput_can_be_limited(tmp_path: Path) -> None:
    folder = written(tmp_path, [FAST, LATE_START, LATE_END, ONE_TOKEN])
    bounds = parse_goodput(["ttft:800ms, latency:3s"])
    for text, code in (("goodput >= 50%", ExitCode.OK), ("goodput > 50%", ExitCode.LIMIT_BROKEN)):
        assert build_report(folder, Thresholds(), [parse_limit(text)], bounds).exit_code is code


@pytest.mark.parametrize(
    "text", ["ttft", "ttft:800", "lateness:1ms", "ttft:1s ttft:2s", "nonsense:1s", ":1s", "e2el:3000"]
)
def test_what_is_no_bound_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--goodput"):
        parse_goodput([text])


def test_the_command_shows_goodput_and_what_it_means(tmp_path: Path) -> None:
    folder = written(tmp_path, [FAST, LATE_START, LATE_END, ONE_TOKEN])
    done = run("report", folder.path, "--goodput", "ttft:800ms latency:3s", "--slo", "goodput > 60%")
    assert done.returncode == 1, done.stderr
    assert "limit goodput > 60%: BROKEN (50.0%)" in done.stdout
    assert "goodput: ttft within 800 ms, latency within 3.00 s" in done.stdout


def test_a_limit_on_goodput_needs_bounds(tmp_path: Path) -> None:
    done = run("report", written(tmp_path, [FAST]).path, "--slo", "goodput > 60%")
    assert done.returncode == 2
    assert "--goodput 'ttft:800ms latency:3s'" in done.stderr
