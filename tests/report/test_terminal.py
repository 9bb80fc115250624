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
    render(report, Console(file=stream, width=80, force_terminal=False, highlight=False, emoji=False))
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


def test_an_interrupted_run_says_so_first(tmp_path: Path) -> None:
    text = printed(a_run(tmp_path, status="interrupted", exit_reason="SIGINT"))
    assert "interrupted (SIGINT)" in text.splitlines()[0]


def test_an_invalid_run_says_so_first(tmp_path: Path) -> None:
    text = printed(a_run(tmp_path, generator={"workers": [], "lost": [0]}))
    assert "INVALID" in " ".join(text.splitlines()[:2])
