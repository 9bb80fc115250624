"""KeptProgress: what was asked for and what was made so far, in one JSON file beside the runs; survives a stop."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from loadgen.atomic_file import write_text
from loadgen.errors import RunError


@dataclass(frozen=True, slots=True)
class KeptProgress:
    """The file `name` in a folder. verb: which makes it. made: its list of what was made. version: the last one."""

    name: str
    verb: str
    made: str
    version: int

    def create(self, parent: Path, stem: str, document: Mapping[str, Any]) -> Path:
        """Make the folder `<stem>-<verb>-<utc>-<id>` under `parent` with its first document."""
        safe_stem = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "run"
        path = parent / f"{safe_stem}-{self.verb}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
        try:
            path.mkdir(parents=True)
        except OSError as exc:
            raise RunError(
                f"{path}: cannot be made ({exc.strerror})", hint="choose another --out-dir"
            ) from exc
        self.write(path, document)
        return path

    def read(self, folder: Path) -> dict[str, Any]:
        """The document in `folder`. Raises RunError if there is none, or of a newer version."""
        path = folder / self.name
        try:
            document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            version = document["format_version"]
            assert isinstance(document[self.made], list)
        except FileNotFoundError:
            raise RunError(
                f"{folder}: is no experiment (no {self.name} in it)",
                hint=f"give a folder that {self.verb} made",
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AssertionError) as exc:
            raise RunError(f"{path}: cannot be read ({exc})") from exc
        if version > self.version:
            raise RunError(
                f"{path}: experiment format {version} is newer than {self.version}, the last known here",
                hint="install a newer loadgen",
            )
        return document

    def write(self, folder: Path, document: Mapping[str, Any]) -> None:
        """Put `document` there, whole or not at all."""
        text = json.dumps({**document, "format_version": self.version}, indent=1, allow_nan=False)
        write_text(folder / self.name, text + "\n")

    def append(self, folder: Path, entry: Mapping[str, Any]) -> None:
        """Add to what was made."""
        document = self.read(folder)
        document[self.made].append(dict(entry))
        self.write(folder, document)
