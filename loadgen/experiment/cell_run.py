"""CellRun: one run of an experiment to be made, wherever that is; a plain value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from loadgen.compare.ab_target import AbTarget, started
from loadgen.experiment.experiment import MadeRun
from loadgen.experiment.sending import Sending, Sent
from loadgen.replay.worker import Progress
from loadgen.report.limit import Limit
from loadgen.report.report import build_report, write_report
from loadgen.report.validity import Thresholds
from loadgen.simulate.simulated_run import SimulatedRun, simulate_run


@dataclass(frozen=True, slots=True)
class LiveRun:
    """A schedule sent at a target, which is started for it where it does not stay up."""

    target: AbTarget
    health: str | None
    ready_within_s: float
    sending: Sending
    sent: Sent


@dataclass(frozen=True, slots=True)
class CellRun:
    """what: sent or simulated. thresholds, limits: what its report judges it by."""

    what: LiveRun | SimulatedRun
    thresholds: Thresholds
    limits: tuple[Limit, ...]

    def make(self, on_progress: Callable[[Progress], None]) -> MadeRun:
        """Make it, with its report."""
        signal_name = None
        if isinstance(self.what, SimulatedRun):
            folder = simulate_run(self.what)
        else:
            live = self.what
            with started(live.target, ready_within_s=live.ready_within_s, health=live.health) as url:
                folder, ending = live.sending.run(url, live.sent, on_progress)
            signal_name = ending.signal_name
        write_report(build_report(folder, self.thresholds, self.limits), folder)
        return MadeRun(folder.path, signal_name)

    def kept_in(self, out_dir: Path) -> CellRun:
        """The same, its folder elsewhere."""
        if isinstance(self.what, SimulatedRun):
            return replace(self, what=replace(self.what, out_dir=out_dir))
        return replace(self, what=replace(self.what, sent=replace(self.what.sent, out_dir=out_dir)))
