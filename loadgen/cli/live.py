"""What is seen while a run goes on: one live panel on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from statistics import fmean
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.table import Table

from loadgen.cli import console
from loadgen.durations import format_duration
from loadgen.percentiles import nearest_rank
from loadgen.plan.schedule import Schedule, Window
from loadgen.replay.request_record import Outcome
from loadgen.replay.worker import Progress
from loadgen.report.timeline import GAUGES
from loadgen.telemetry.samples import Samples

_ROLLING_S = 10.0
_LINE_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of a run as it is shown; counts over all workers. Rolling figures are over 10 s, in seconds."""

    elapsed_s: float
    length_s: float
    window: str
    next_window: str
    num_planned: int
    num_due: int
    num_sent: int
    num_in_flight: int
    num_ok: int
    num_rejected: int
    num_failed: int
    ttft_p50_s: float | None
    ttft_p99_s: float | None
    latency_p50_s: float | None
    latency_p99_s: float | None
    lateness_max_s: float
    # What was read last beside the requests; None where it is not told.
    server_waiting: float | None = None
    server_running: float | None = None
    gpu_active: float | None = None
    gpu_sm_active: float | None = None

    @property
    def line(self) -> str:
        """One plain line."""
        parts = [
            f"{format_duration(self.elapsed_s)} of {format_duration(self.length_s)}  [{self.window}]",
            self.next_window,
            f"due {self.num_due}  sent {self.num_sent}  in flight {self.num_in_flight}  ok {self.num_ok}",
            f"rejected {self.num_rejected}  failed {self.num_failed}",
            f"TTFT p50 {_shown(self.ttft_p50_s)} p99 {_shown(self.ttft_p99_s)}",
            f"latency p50 {_shown(self.latency_p50_s)} p99 {_shown(self.latency_p99_s)}",
            "" if self.server_waiting is None else f"queued {self.server_waiting:.0f}",
            self._gpu_words,
        ]
        return "  ".join(part for part in parts if part)

    @property
    def _gpu_words(self) -> str:
        """Always the two together: any kernel ran, and multiprocessors had work."""
        if self.gpu_active is None:
            return ""
        sm = "" if self.gpu_sm_active is None else f", SMs {self.gpu_sm_active:.0%}"
        return f"GPU {self.gpu_active:.0%}{sm}"

    def table(self) -> Table:
        """The same as a small table."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold")
        table.add_column()
        table.add_row(
            "time",
            f"{format_duration(self.elapsed_s)} of {format_duration(self.length_s)}   {self.next_window}",
        )
        table.add_row("window", self.window)
        table.add_row(
            "requests",
            f"{self.num_planned} planned   {self.num_due} due   {self.num_sent} sent   "
            f"{self.num_in_flight} in flight",
        )
        table.add_row("ended", f"{self.num_ok} ok   {self.num_rejected} rejected   {self.num_failed} failed")
        table.add_row("TTFT", f"p50 {_shown(self.ttft_p50_s)}   p99 {_shown(self.ttft_p99_s)}   (last 10 s)")
        table.add_row(
            "latency", f"p50 {_shown(self.latency_p50_s)}   p99 {_shown(self.latency_p99_s)}   (last 10 s)"
        )
        if self.server_waiting is not None:
            running = "" if self.server_running is None else f"   {self.server_running:.0f} running"
            table.add_row("server", f"{self.server_waiting:.0f} queued{running}")
        if self._gpu_words:
            table.add_row("device", self._gpu_words)
        table.add_row("lateness", f"worst {_shown(self.lateness_max_s)}   (ours, not the target's)")
        return table


class LiveDisplay:
    """Feed it each worker's Progress; it shows the sum. Use it as a context manager around the run.

    Escape bytes go to a terminal only; a log gets a line each 5 s.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._planned_ns = schedule.planned_ns
        self._windows = schedule.windows
        self._length_s = schedule.end_ns / 1e9
        self._last: dict[int, Progress] = {}
        self._recent: deque[tuple[float, float, float | None]] = deque()
        self._console: Console = console.err()
        self._live: Live | None = None
        self._line_at_s = _LINE_EVERY_S
        self._samples: Sequence[Samples] = ()

    def watch(self, samples: Sequence[Samples]) -> None:
        """Show what is read beside the requests, too."""
        self._samples = samples

    def __enter__(self) -> LiveDisplay:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress) -> None:
        """Take one worker's progress and show the whole."""
        now_s = progress.elapsed_ns / 1e9
        self._last[progress.worker] = progress
        self._recent.extend((now_s, latency_s, ttft_s) for latency_s, ttft_s in progress.recent)
        while self._recent and self._recent[0][0] < now_s - _ROLLING_S:
            self._recent.popleft()
        if self._live is not None:
            self._live.update(self._moment(now_s).table(), refresh=True)
        elif now_s >= self._line_at_s:
            self._line_at_s = now_s + _LINE_EVERY_S
            console.note(self._moment(now_s).line)

    def _moment(self, elapsed_s: float) -> Moment:
        elapsed_ns = round(elapsed_s * 1e9)
        workers = self._last.values()
        outcomes: dict[str, int] = {}
        for progress in workers:
            for name, count in progress.outcomes.items():
                outcomes[name] = outcomes.get(name, 0) + count
        num_ok, num_rejected = outcomes.get(Outcome.OK, 0), outcomes.get(Outcome.REJECTED, 0)
        latency = _percentiles([latency_s for _, latency_s, _ in self._recent])
        ttft = _percentiles([ttft_s for _, _, ttft_s in self._recent if ttft_s is not None])
        return Moment(
            elapsed_s=elapsed_s,
            length_s=self._length_s,
            window=window_at(self._windows, elapsed_ns),
            next_window=_coming_up(self._windows, elapsed_ns),
            num_planned=len(self._planned_ns),
            num_due=int(np.searchsorted(self._planned_ns, elapsed_ns, side="right")),
            num_sent=sum(progress.num_sent for progress in workers),
            num_in_flight=sum(progress.num_in_flight for progress in workers),
            num_ok=num_ok,
            num_rejected=num_rejected,
            num_failed=sum(outcomes.values()) - num_ok - num_rejected,
            ttft_p50_s=ttft[0],
            ttft_p99_s=ttft[1],
            latency_p50_s=latency[0],
            latency_p99_s=latency[1],
            lateness_max_s=max(progress.lateness_max_s for progress in workers),
            server_waiting=self._read("server_waiting", sum),
            server_running=self._read("server_running", sum),
            gpu_active=self._read("gpu_active", fmean),
            gpu_sm_active=self._read("gpu_sm_active", fmean),
        )

    def _read(self, series: str, fold: Callable[[list[float]], float]) -> float | None:
        """What was read last of a series of the report's time line, over all that tell it."""
        found = [
            value
            for samples in self._samples
            for (_, name), value in samples.latest.items()
            if GAUGES.get(name) == series and isfinite(value)
        ]
        return fold(found) if found else None


def window_at(windows: Sequence[Window], moment_ns: int) -> str:
    """The label of the window that a moment lies in; "draining" after the last."""
    return next(
        (window.label for window in windows if window.start_ns <= moment_ns < window.end_ns), "draining"
    )


def _coming_up(windows: Sequence[Window], moment_ns: int) -> str:
    for window in windows:
        if window.start_ns > moment_ns and window.label.startswith(("peak", "burst")):
            return f"{window.label} in {format_duration((window.start_ns - moment_ns) / 1e9)}"
    return ""


def _percentiles(values_s: list[float]) -> list[float | None]:
    return nearest_rank(np.asarray(values_s, dtype=np.float64), [50, 99])


def _shown(duration_s: float | None) -> str:
    return "-" if duration_s is None else format_duration(duration_s)
