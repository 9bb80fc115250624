"""AbFolder: where an experiment is kept, so that it can go on after it was stopped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadgen.kept_progress import KeptProgress

# Version 1 (2026-12). A reader refuses a newer version.
_PROGRESS = KeptProgress("ab.json", "ab", "pairs", version=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """One pair that was run. order: ab or ba. a, b: names of the run folders, None where one was not run.

    void: why it does not count, or None.
    """

    order: str
    a: str | None
    b: str | None
    void: str | None = None


@dataclass(frozen=True, slots=True)
class AbFolder:
    """ab.json beside the run folders of both sides. It is written after each pair."""

    path: Path

    @classmethod
    def create(cls, parent: Path, name: str, settings: Mapping[str, Any]) -> AbFolder:
        """Make `<name>-ab-<utc>-<id>` under `parent`. settings: what it was asked for, without secrets."""
        return cls(_PROGRESS.create(parent, name, {"settings": dict(settings), "pairs": [], "ended": None}))

    @classmethod
    def open(cls, path: Path) -> AbFolder:
        """The experiment at `path`. Raises RunError if there is none, or a newer one."""
        _PROGRESS.read(path)
        return cls(path)

    @property
    def comparison_path(self) -> Path:
        return self.path / "comparison.json"

    @property
    def settings(self) -> dict[str, Any]:
        return dict(_PROGRESS.read(self.path)["settings"])

    @property
    def pairs(self) -> list[Pair]:
        return [Pair(**pair) for pair in _PROGRESS.read(self.path)["pairs"]]

    def append(self, pair: Pair) -> None:
        _PROGRESS.append(self.path, asdict(pair))

    def end(self, why: str) -> None:
        """Note why it stopped: decided, max-pairs, max-time, interrupted, or what failed."""
        _PROGRESS.write(self.path, {**_PROGRESS.read(self.path), "ended": why})
