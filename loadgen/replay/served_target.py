"""ServedTarget: the bundled server, started for one run and stopped after it."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from loadgen.errors import TargetError
from loadgen.parent import end_with_parent

_READY_WITHIN_S = 120.0
_STOP_WITHIN_S = 40.0


def serve_command(flags: Sequence[str]) -> list[str]:
    """The command that starts the bundled server."""
    return [sys.executable, "-m", "loadgen_target", *flags]


@contextmanager
def served_target(flags: str) -> Iterator[str]:
    """Start the bundled server with `flags` on a free port, yield its URL, and let it drain at the end.

    Raises TargetError when it does not come up; what it said of the reason stands on standard error.
    """
    with tempfile.TemporaryDirectory(prefix="loadgen-") as folder:
        ready_path = Path(folder) / "ready.json"
        command = serve_command([*shlex.split(flags), "--port", "0", "--ready-file", str(ready_path)])
        # A session of its own: Ctrl-C is for the run, which then stops the server.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509  # one system call
        )
        try:
            yield _wait_until_ready(process, ready_path)
        except KeyboardInterrupt:
            process.kill()  # a second Ctrl-C: no time to drain
            raise
        finally:
            process.terminate()
            try:
                process.wait(_STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], ready_path: Path) -> str:
    deadline_s = time.monotonic() + _READY_WITHIN_S
    while time.monotonic() < deadline_s:
        if ready_path.is_file():
            return str(json.loads(ready_path.read_text(encoding="utf-8"))["url"])
        if process.poll() is not None:
            raise TargetError(
                f"the bundled server ended with status {process.returncode} before it was ready",
                hint="its message stands above; the flags of --serve are those of `loadgen serve`",
            )
        time.sleep(0.05)
    raise TargetError(f"the bundled server was not ready within {_READY_WITHIN_S:.0f} s")
