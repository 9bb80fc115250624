"""CapacityLog: the probes of a search, beside the experiment's runs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from loadgen.atomic_file import write_text
from loadgen.errors import RunError
from loadgen.experiment.capacity import Probe

_FILE = "capacity.json"


@dataclass(frozen=True, slots=True)
class CapacityLog:
    """capacity.json in an experiment's folder: probes by target and load. Written after each run."""

    path: Path

    def probes(self, target: str, load: str) -> list[Probe]:
        return [Probe(**probe) for probe in self._read().get(f"{target} | {load}", ())]

    def add(self, target: str, load: str, probe: Probe) -> None:
        document = self._read()
        document.setdefault(f"{target} | {load}", []).append(asdict(probe))
        write_text(self.path / _FILE, json.dumps(document, indent=1, allow_nan=False) + "\n")

    def _read(self) -> dict[str, list[dict[str, Any]]]:
        path = self.path / _FILE
        if not path.is_file():
            return {}
        try:
            found: dict[str, list[dict[str, Any]]] = json.loads(path.read_text(encoding="utf-8"))
            return found
        except (OSError, ValueError) as exc:
            raise RunError(f"{path}: cannot be read ({exc})") from exc
