"""`loadgen serve`: the bundled target, as a process of its own."""

from __future__ import annotations

import importlib.util
import os
import sys

import typer

from loadgen.errors import UsageError
from loadgen.replay.served_target import serve_command


def serve(context: typer.Context) -> None:
    """Start the bundled inference server: a small GPU (or CPU) server with a batching policy of your choice.

    All flags go to the server; `loadgen serve --help` lists them.
    """
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("uvicorn") is None:
        raise UsageError(
            "the bundled server needs torch and uvicorn, which are not installed",
            hint="pip install 'loadgen[target]'",
        )
    sys.stdout.flush()
    # The server takes this process's place: its signals and its exit code are the command's own.
    os.execv(sys.executable, serve_command(context.args))
