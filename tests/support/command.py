"""The real command line in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def start(
    *arguments: object, folder: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start `loadgen ARGUMENTS` in `folder`, output piped."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LOADGEN_")}
    return subprocess.Popen(
        [sys.executable, "-m", "loadgen", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env={**environment, **(env or {})},
    )


def run(*arguments: object, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run `loadgen ARGUMENTS` to its end."""
    process = start(*arguments, **settings)
    out, err = process.communicate(timeout=90)
    return subprocess.CompletedProcess(
        process.args, process.returncode, out.decode(errors="replace"), err.decode(errors="replace")
    )
