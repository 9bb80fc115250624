"""ComparedRun: a run folder with its report, and which runs may stand in a comparison."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.compare.comparability import is_same_target
from loadgen.errors import ExitCode, RunError
from loadgen.replay.run_folder import RunFolder, RunStatus
from loadgen.report.report import build_report, write_report
from loadgen.report.stored import StoredReport, read_report
from loadgen.report.validity import Thresholds


class UnusableRun(RunError):
    """A run that says nothing of its target: invalid, or not run to its end."""

    exit_code = ExitCode.RUN_INVALID


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """facts: run.json. report: as it was made at the run's end, or now where there was none."""

    folder: RunFolder
    facts: dict[str, Any]
    report: StoredReport

    @property
    def name(self) -> str:
        return self.folder.path.name

    @property
    def moment(self) -> tuple[int, str]:
        """For putting runs in order of time."""
        return (int(self.facts.get("started_unix_ns") or 0), str(self.facts.get("started_utc")))

    @property
    def why_unusable(self) -> str | None:
        """Why it may not be compared, or None."""
        status = self.facts.get("status")
        if status != RunStatus.COMPLETE:
            return f"the run is {'killed or still running' if status == RunStatus.RUNNING else status}"
        if not self.report.is_valid:
            reasons = (self.report.document.get("validity") or {}).get("reasons") or ["no reason given"]
            return f"the run is invalid: {'; '.join(map(str, reasons))}"
        return None


def load_run(path: Path) -> ComparedRun:
    """Open a run; a report that is missing is made. Raises RunError where it cannot be read."""
    folder = RunFolder.open(path)
    facts = folder.read_facts()
    if not folder.report_path.is_file():
        write_report(build_report(folder, Thresholds()), folder)
    return ComparedRun(folder, facts, read_report(folder.report_path))


def refuse_unusable(runs: Iterable[ComparedRun], overridden: Collection[str] = ()) -> None:
    """Raises UnusableRun, naming all that are; `validity` among `overridden` takes them as they are."""
    reasons = [f"{run.name}: {reason}" for run in runs if (reason := run.why_unusable)]
    if reasons and "validity" not in overridden:
        raise UnusableRun(
            "; ".join(reasons[:5]) + (f"; and {len(reasons) - 5} more" if len(reasons) > 5 else ""),
            hint="repeat the run; --override validity compares it all the same",
        )


def in_time(runs: Iterable[ComparedRun]) -> list[ComparedRun]:
    return sorted(runs, key=lambda run: run.moment)


def noise_on_record(base: ComparedRun, given: Sequence[ComparedRun]) -> list[ComparedRun]:
    """Usable runs beside `base` of the very same target, machine and schedule, other than those given."""
    names = {run.folder.path.resolve() for run in given}
    found = []
    for path in sorted(base.folder.path.resolve().parent.glob("*/run.json")):
        if path.parent in names:
            continue
        try:
            facts = RunFolder(path.parent).read_facts()
            if facts.get("schedule_hash") != base.facts.get("schedule_hash"):
                continue
            if not is_same_target(base.facts, facts):
                continue
            run = load_run(path.parent)
        except RunError:
            continue  # what cannot be read is no record
        if run.why_unusable is None:
            found.append(run)
    return in_time(found)
