"""The priority of what Ray starts: a niceness of 15 more than its own, behind every ordinary process."""

from __future__ import annotations

import contextlib
import os


def take_back_niceness() -> int:
    """Have this thread, and what it starts, run as Ray's own process does, where the system permits it.

    Gives the niceness that is left of what Ray added. What is nice sends late when something else wants its core.
    """
    if not hasattr(os, "setpriority"):
        return 0
    of_ray = os.getpriority(os.PRIO_PROCESS, os.getppid())
    if os.getpriority(os.PRIO_PROCESS, 0) > of_ray:
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, 0, of_ray)
    return max(0, os.getpriority(os.PRIO_PROCESS, 0) - of_ray)
