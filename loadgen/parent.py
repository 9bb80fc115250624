"""Processes of ours that must not outlive the one that started them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with_parent() -> None:
    """In a new process: be told to terminate when the parent ends, also when it is killed (Linux; prctl(2))."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        # A parent that was killed before this line tells nobody any more.
        parent = multiprocessing.parent_process()
        if parent is not None and os.getppid() != parent.pid:
            os.kill(os.getpid(), signal.SIGTERM)
