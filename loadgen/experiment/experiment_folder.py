"""ExperimentFolder: where an experiment is kept, so that it finishes only what is missing."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadgen.atomic_file import write_text
from loadgen.errors import RunError
from loadgen.experiment.matrix import Cell

# Experiment format. Version 1 (2026-12). A reader refuses a newer version.
FORMAT_VERSION = 1
_FILE = "experiment.json"


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
        safe_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "experiment"
        path = parent / f"{safe_name}-experiment-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        try:
            path.mkdir(parents=True)
        except OSError as exc:
            raise RunError(
                f"{path}: cannot be made ({exc.strerror})", hint="choose another --out-dir"
            ) from exc
        folder = cls(path)
        folder._write({"settings": dict(settings), "made": []})
        return folder

    @classmethod
    def open(cls, path: Path) -> ExperimentFolder:
        """The experiment at `path`. Raises RunError if there is none, or a newer one."""
        folder = cls(path)
        folder._read()
        return folder

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self._read()["settings"])

    @property
    def made(self) -> list[Made]:
        """The runs that count, in the order they were made; one whose folder is gone counts no more."""
        found = [Made(Cell(**entry["cell"]), entry["run"]) for entry in self._read()["made"]]
        return [one for one in found if (self.path / one.run / "run.json").is_file()]

    def add(self, made: Made) -> None:
        """Note a run that was made to its end."""
        document = self._read()
        document["made"].append(asdict(made))
        self._write(document)

    def _read(self) -> dict[str, Any]:
        path = self.path / _FILE
        try:
            document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            version = document["format_version"]
            assert isinstance(document["made"], list)
        except FileNotFoundError:
            raise RunError(
                f"{self.path}: is no experiment (no {_FILE} in it)", hint="give a folder that experiment made"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AssertionError) as exc:
            raise RunError(f"{path}: cannot be read ({exc})") from exc
        if version > FORMAT_VERSION:
            raise RunError(
                f"{path}: experiment format {version} is newer than {FORMAT_VERSION}, the last known here",
                hint="install a newer loadgen",
            )
        return document

    def _write(self, document: dict[str, Any]) -> None:
        text = json.dumps({**document, "format_version": FORMAT_VERSION}, indent=1, allow_nan=False)
        write_text(self.path / _FILE, text + "\n")
