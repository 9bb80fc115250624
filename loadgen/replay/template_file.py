"""Template files: TOML or JSON, and the files that they name."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from loadgen.errors import UsageError
from loadgen.replay.dialects.template import Template, parse_template


def read_template(path: Path) -> Template:
    """The template at `path`, JSON if it is named so, else TOML; files it names lie beside it.

    Raises UsageError for a file that cannot be read or is no template.
    """

    def read_file(name: str) -> bytes:
        try:
            return (path.parent / name).read_bytes()
        except OSError as exc:
            raise UsageError(f"{path}: {name} cannot be read ({exc.strerror})") from exc

    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as exc:
        raise UsageError(f"--template {path}: cannot be read ({exc.strerror})") from exc
    except ValueError as exc:
        raise UsageError(f"--template {path}: is no TOML or JSON ({exc})".splitlines()[0]) from exc
    if not isinstance(document, dict):
        raise UsageError(f"--template {path}: holds no table", hint="see docs/replay.md for a template")
    return parse_template(document, f"--template {path}", read_file)
