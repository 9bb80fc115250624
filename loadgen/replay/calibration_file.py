"""Calibrations kept in the user's cache folder, by machine and versions."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import loadgen
from loadgen.atomic_file import write_text
from loadgen.errors import RunError
from loadgen.replay.calibration import Calibration

# Version 1 (2026-12). A file of another version is not read, and replaced by the next calibration.
FORMAT_VERSION = 1
_MOST_KEPT = 32


def cache_folder() -> Path:
    """Where this user's caches of loadgen are: $XDG_CACHE_HOME or ~/.cache, ~/Library/Caches on macOS."""
    given = os.environ.get("XDG_CACHE_HOME")
    if given and Path(given).is_absolute():
        return Path(given) / "loadgen"
    home = Path.home()
    return (home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache") / "loadgen"


def host_facts() -> dict[str, Any]:
    """What a calibration holds for. cores: those that this process may use."""
    return {
        "platform": sys.platform,
        "machine": platform.machine(),
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "loadgen": loadgen.__version__,
    }


def read_calibrations(path: Path) -> list[Calibration]:
    """All that the file holds; none where there is no file, or one that cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format_version"] != FORMAT_VERSION:
            return []
        return [Calibration.from_json(entry) for entry in document["calibrations"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def keep(calibration: Calibration, path: Path) -> None:
    """Add it, in place of one for the same machine and settings. Raises RunError where nothing can be written."""
    others = [other for other in read_calibrations(path) if _key(other) != _key(calibration)]
    kept = [*others, calibration][-_MOST_KEPT:]
    document = {"format_version": FORMAT_VERSION, "calibrations": [entry.as_json() for entry in kept]}
    try:
        write_text(path, json.dumps(document, indent=2, allow_nan=False) + "\n")
    except OSError as exc:
        raise RunError(f"{path}: cannot be written ({exc.strerror or exc})") from exc


def calibration_for(
    path: Path, host: dict[str, Any], *, workers: int, transport: str, realtime: bool
) -> Calibration | None:
    """That of this machine for these settings: for so many workers, else the one of most below, else any."""
    fitting = [
        entry
        for entry in read_calibrations(path)
        if (entry.host, entry.transport, entry.realtime) == (host, transport, realtime)
    ]
    return min(
        fitting, key=lambda entry: (entry.workers > workers, abs(workers - entry.workers)), default=None
    )


def calibration_path() -> Path:
    return cache_folder() / "calibration.json"


def _key(calibration: Calibration) -> tuple[Any, ...]:
    return calibration.host, calibration.workers, calibration.transport, calibration.realtime


def _cpu_model() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or None
