"""What is seen while a run goes on: planned against sent, rolling times, queue, device, and the peak to come."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from loadgen.cli.live import LiveDisplay, Moment
from loadgen.plan.schedule import Schedule, Window
from loadgen.replay.worker import Progress
from loadgen.telemetry.samples import GPU_ACTIVE, GPU_SM_ACTIVE, Samples
from support.runs import ns
from support.sending import schedule_table

WINDOWS = (
    Window("baseline", 0, ns(20)),
    Window("peak-1", ns(20), ns(21)),
    Window("recovery-1", ns(21), ns(40)),
)
SCHEDULE = Schedule(schedule_table([k / 10 for k in range(400)]), WINDOWS, "trace-id", {})


def progress(
    elapsed_s: float, worker: int = 0, recent: Sequence[tuple[float, float | None]] = ()
) -> Progress:
    outcomes = {"ok": 40, "rejected": 3, "reset": 1}
    return Progress(worker, ns(elapsed_s), 50, 6, outcomes, tuple(recent), 0.0004)


def readings() -> Samples:
    samples = Samples()
    for value in (30, 12):
        samples.add(0, "server", "vllm:num_requests_waiting", value)
    samples.add(0, "gpu:GPU-aa", GPU_ACTIVE, 0.9)
    samples.add(0, "gpu:GPU-bb", GPU_ACTIVE, 0.8)
    samples.add(0, "gpu:GPU-aa", GPU_SM_ACTIVE, 0.2)
    return samples


def lines(capsys: pytest.CaptureFixture[str], *fed: Progress, samples: Sequence[Samples] = ()) -> list[str]:
    with LiveDisplay(SCHEDULE) as display:
        display.watch(samples)
        for one in fed:
            display.show(one)
    return capsys.readouterr().err.splitlines()


def test_in_a_pipe_a_line_tells_it_all_each_five_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    recent = [(0.1, 0.02), (0.3, 0.05), (0.2, None)]
    shown = lines(
        capsys, progress(1), progress(6, recent=recent), progress(7), progress(12), samples=[readings()]
    )
    assert shown == [
        "6.00 s of 40.00 s  [baseline]  peak-1 in 14.00 s  due 61  sent 50  in flight 6  ok 40  "
        "rejected 3  failed 1  TTFT p50 20 ms p99 50 ms  "
        "latency p50 200 ms p99 300 ms  queued 12  GPU 85%, SMs 20%",
        "12.00 s of 40.00 s  [baseline]  peak-1 in 8.00 s  due 121  sent 50  in flight 6  ok 40  "
        "rejected 3  failed 1  TTFT p50 20 ms p99 50 ms  "
        "latency p50 200 ms p99 300 ms  queued 12  GPU 85%, SMs 20%",
    ]


def test_workers_are_added_up_and_what_ended_long_ago_is_in_no_rolling_figure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    old, new = [(9.0, 9.0)], [(0.1, 0.05)]
    (_, line) = lines(capsys, progress(6, 0, old), progress(17, 1, new))
    assert "sent 100  in flight 12  ok 80" in line
    assert "latency p50 100 ms p99 100 ms" in line


def test_what_is_not_told_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = lines(capsys, progress(25))
    assert "queued" not in line
    assert "GPU" not in line
    assert "peak-1 in" not in line
    assert "TTFT p50 - p99 -" in line


def test_the_panel_has_a_row_for_each() -> None:
    moment = Moment(6, 40, "baseline", "peak-1 in 14 s", 400, 61, 50, 6, 40, 3, 1, 0.02, 0.05, 0.1, 0.3, 0.0004,
                    server_waiting=12, server_running=8, gpu_active=0.85, gpu_sm_active=0.2)  # fmt: skip
    stream = io.StringIO()
    Console(file=stream, width=80).print(moment.table())
    text = stream.getvalue()
    for words in ("6.00 s of 40.00 s   peak", "400 planned   61 due   50 sent   6 in flight", "3 rejected",
                  "p50 20 ms", "12 queued   8 running", "GPU 85%, SMs 20%", "worst 400 us"):  # fmt: skip
        assert words in text, text
    assert all(len(line) <= 80 for line in text.splitlines())
