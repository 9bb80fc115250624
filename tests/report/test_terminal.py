"""A report as it is printed: compared with golden files, at 80 columns, in a pipe, in ASCII where it must be.

UPDATE_GOLDEN=1 writes the files anew; read their diff before you believe it.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from loadgen.cli.console import trim
from loadgen.plan.schedule import Window
from loadgen.report.limit import parse_limit
from loadgen.report.report import Report, build_report
from loadgen.report.terminal import render
from loadgen.report.validity import Thresholds
from support.runs import failed, ns, ok, written

GOLDEN = Path(__file__).parent / "golden"
WINDOWS = (Window("baseline", 0, ns(8)), Window("peak-1", ns(8), ns(9)), Window("recovery-1", ns(9), ns(12)))


def stages(scale: float) -> dict[str, Any]:
    names = (
        "parsed",
        "pre_start",
        "pre_end",
        "enqueued",
        "exec_start",
        "prefill_end",
        "first_token",
        "last_token",
    )
    shares = (0.001, 0.002, 0.01, 0.011, 0.6, 0.69, 0.7, 0.9)
    moments = {
        f"server_{name}_us": round(share * scale * 1e6) for name, share in zip(names, shares, strict=True)
    }
    return {**moments, "server_finished_us": round(scale * 1e6), "server_mean_batch": 3.0}


def a_run(folder: Path, **facts: Any) -> Report:
    """Steady, then a peak that is partly refused, then back to normal."""
    rows = [
        ok(k / 5, sent_s=k / 5 + 0.0002, first_s=k / 5 + 0.08, last_s=k / 5 + 0.11, tokens=4) | stages(0.1)
        for k in range(40)
    ]
    rows += [
        ok(
            8 + k / 40,
            sent_s=8 + k / 40 + 0.0004,
            first_s=8.5 + k / 40,
            last_s=8.9 + k / 40,
            tokens=4,
            window="peak-1",
        )
        | stages(0.85)
        for k in range(30)
    ]
    rows += [
        failed(8.8 + k / 100, "rejected", end_s=8.801 + k / 100, window="peak-1", status_code=429,
               error="HTTP 429: 64 requests wait, and the limit is 64")
        for k in range(5)
    ]  # fmt: skip
    rows += [
        ok(9 + k / 5, sent_s=9 + k / 5 + 0.0002, first_s=9 + k / 5 + 0.08, last_s=9 + k / 5 + 0.11, tokens=4,
           window="recovery-1") | stages(0.1)
        for k in range(15)
    ]  # fmt: skip
    target = {"url": "http://127.0.0.1:8000", "model": "m", "dialect": "chat",
              "facts": {"flags": {"max_batch_size": 8}}}  # fmt: skip
    run = written(folder, rows, windows=WINDOWS, length_s=12.0, target=target, **facts)
    limits = [parse_limit("latency p99 < 500ms"), parse_limit("error_rate < 10%")]
    return build_report(run, Thresholds(), limits)


def printed(report: Report, encoding: str = "utf-8") -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict", newline="\n")
    console = Console(file=stream, width=80, force_terminal=False, highlight=False, emoji=False)
    trim(console)
    render(report, console)
    stream.flush()
    stream.seek(0)
    return stream.read()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_a_whole_report_is_printed_as_agreed(tmp_path: Path, encoding: str) -> None:
    text = printed(a_run(tmp_path), encoding)
    path = GOLDEN / f"report-{encoding}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_no_line_is_wider_than_eighty_columns(tmp_path: Path) -> None:
    wide = [line for line in printed(a_run(tmp_path)).splitlines() if len(line) > 80]
    assert wide == []


def test_the_message_of_a_failure_has_the_whole_width_and_three_lines_at_most(tmp_path: Path) -> None:
    told = "HTTP 500: " + "the engine core is not alive and will not come back " * 20
    rows = [ok(0, first_s=0.1, last_s=0.2), failed(1, "http_error", end_s=1.1, error=told)]
    text = printed(build_report(written(tmp_path, rows), Thresholds()))
    shown = text[text.index("http_error, for example:") :].split("\n\n")[0].splitlines()
    assert shown[0].startswith("http_error, for example: HTTP 500: the engine core is not alive")
    assert len(shown) == 3
    assert shown[-1].endswith("...")


def test_an_interrupted_run_says_so_first(tmp_path: Path) -> None:
    text = printed(a_run(tmp_path, status="interrupted", exit_reason="SIGINT"))
    assert "interrupted (SIGINT)" in text.splitlines()[0]


def test_an_invalid_run_says_so_first(tmp_path: Path) -> None:
    text = printed(a_run(tmp_path, generator={"workers": [], "lost": [0]}))
    assert "INVALID" in " ".join(text.splitlines()[:2])


def test_whether_the_peak_held_stands_before_the_table(tmp_path: Path) -> None:
    head = printed(a_run(tmp_path)).split("overall")[0]
    assert "held in peak-1: NO (peak-1" not in head
    assert "held in peak-1: NO (p99 latency 900 ms against 110 ms" in head
    assert "limit latency p99 < 500ms: BROKEN (900 ms)" in head


def test_text_from_the_target_cannot_move_the_cursor(tmp_path: Path) -> None:
    rows = [ok(0, first_s=0.1, last_s=0.2), failed(1, "http_error", end_s=1.1, error="\x1b[2Jgone\r\x9b1m")]
    run = written(tmp_path, rows, status="interrupted", exit_reason="\x1b[1mSIG", warnings=["\x1b[3m"])
    text = printed(build_report(run, Thresholds()))
    assert "?[2Jgone??1m" in text
    assert "\x1b" not in text


def test_of_many_bursts_the_one_that_held_least_is_shown(tmp_path: Path) -> None:
    windows: list[Window] = []
    rows: list[dict[str, Any]] = []
    for k in range(10):
        label = f"burst-{k + 1}"
        windows += [Window("baseline", ns(k), ns(k + 0.5)), Window(label, ns(k + 0.5), ns(k + 1))]
        rows += [ok(k + j / 10, first_s=k + j / 10 + 0.05, last_s=k + j / 10 + 0.1) for j in range(5)]
        took_s = 0.8 if k == 6 else 0.2
        rows += [
            ok(k + j / 10, first_s=k + j / 10 + 0.05, last_s=k + j / 10 + took_s, window=label)
            for j in range(5, 10)
        ]
    limits = [parse_limit("recovery_s < 10s")]
    text = printed(build_report(written(tmp_path, rows, windows=windows), Thresholds(), limits))
    header = next(line for line in text.splitlines() if line.strip().startswith("overall"))
    assert header.split() == ["overall", "baseline", "burst-1", "burst-2", "burst-7"]
    assert "7 more windows are in report.json" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_what_was_sent_to_warm_up_is_told_apart(tmp_path: Path) -> None:
    # F34
    facts = {"outcomes": {"ok": 1}, "first_latency_s": 5.0, "median_latency_s": 5.0}
    text = printed(a_run(tmp_path, warmup=facts))
    assert "warm-up: 1 ok; first 5.00 s, median 5.00 s; in no figure" in text
    assert "90 planned" in text
