"""The priority of what Ray starts: a niceness of 15 more than its own, behind every ordinary process."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def own_threads() -> list[int]:
    """The threads of this process, where the system lists them; else the calling one, 0.

    One that waits for the interpreter's lock waits as long as the least of those that may hold it.
    """
    try:
        return [int(thread.name) for thread in Path("/proc/self/task").iterdir()]
    except OSError:
        return [0]


def take_back_niceness() -> int:
    """Have this process, and what it starts, run as Ray's own process does, where the system permits it.

    Gives the niceness that is left of what Ray added. What is nice sends late when something else wants its core.
    """
    if not hasattr(os, "setpriority"):
        return 0
    of_ray = os.getpriority(os.PRIO_PROCESS, os.getppid())
    for thread in own_threads():
        with contextlib.suppress(PermissionError, ProcessLookupError):
            if os.getpriority(os.PRIO_PROCESS, thread) > of_ray:
                os.setpriority(os.PRIO_PROCESS, thread, of_ray)
    return max(0, os.getpriority(os.PRIO_PROCESS, 0) - of_ray)
