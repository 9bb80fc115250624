"""ExperimentFolder: where an experiment is kept, so that it finishes only what is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadgen.experiment.matrix import Cell
from loadgen.kept_progress import KeptProgress

# Version 1 (2026-12). A reader refuses a newer version.
_PROGRESS = KeptProgress("experiment.json", "experiment", "made", version=1)


@dataclass(frozen=True, slots=True)
class Made:
    """A cell that was run to its end. run: the name of its folder."""

    cell: Cell
    run: str


@dataclass(frozen=True, slots=True)
class ExperimentFolder:
    """experiment.json beside the run folders. It is written after each run: a run that it lacks is none."""

    path: Path

    @classmethod
    def create(cls, parent: Path, name: str, settings: Mapping[str, Any]) -> ExperimentFolder:
        """Make `<name>-experiment-<utc>-<id>` under `parent`. settings: what was asked for, without secrets."""
        return cls(_PROGRESS.create(parent, name, {"settings": dict(settings), "made": []}))

    @classmethod
    def open(cls, path: Path) -> ExperimentFolder:
        """The experiment at `path`. Raises RunError if there is none, or a newer one."""
        _PROGRESS.read(path)
        return cls(path)

    @property
    def settings(self) -> dict[str, Any]:
        return dict(_PROGRESS.read(self.path)["settings"])

    @property
    def made(self) -> list[Made]:
        """The runs that count, in the order they were made; one whose folder is gone counts no more."""
        found = [Made(Cell(**entry["cell"]), entry["run"]) for entry in _PROGRESS.read(self.path)["made"]]
        return [one for one in found if (self.path / one.run / "run.json").is_file()]

    def add(self, made: Made) -> None:
        """Note a run that was made to its end."""
        _PROGRESS.append(self.path, asdict(made))
