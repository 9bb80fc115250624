"""AbFolder: where an experiment is kept, so that it can go on after it was stopped."""

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

# Experiment format. Version 1 (2026-12). A reader refuses a newer version.
FORMAT_VERSION = 1


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
        safe_name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.") or "run"
        path = parent / f"{safe_name}-ab-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        try:
            path.mkdir(parents=True)
        except OSError as exc:
            raise RunError(
                f"{path}: cannot be made ({exc.strerror})", hint="choose another --out-dir"
            ) from exc
        folder = cls(path)
        folder._write({"settings": dict(settings), "pairs": [], "ended": None})
        return folder

    @classmethod
    def open(cls, path: Path) -> AbFolder:
        """The experiment at `path`. Raises RunError if there is none, or a newer one."""
        folder = cls(path)
        folder._read()
        return folder

    @property
    def comparison_path(self) -> Path:
        return self.path / "comparison.json"

    @property
    def settings(self) -> dict[str, Any]:
        return dict(self._read()["settings"])

    @property
    def pairs(self) -> list[Pair]:
        return [Pair(**pair) for pair in self._read()["pairs"]]

    def append(self, pair: Pair) -> None:
        document = self._read()
        document["pairs"].append(asdict(pair))
        self._write(document)

    def end(self, why: str) -> None:
        """Note why it stopped: decided, max-pairs, max-time, interrupted, or what failed."""
        self._write({**self._read(), "ended": why})

    def _read(self) -> dict[str, Any]:
        path = self.path / "ab.json"
        try:
            document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            version = document["format_version"]
            assert isinstance(document["pairs"], list)
        except FileNotFoundError:
            raise RunError(
                f"{self.path}: is no experiment (no ab.json in it)", hint="give a folder that ab made"
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
        write_text(self.path / "ab.json", text + "\n")
