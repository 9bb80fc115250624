"""AbsoluteTimer: calls back at a moment of the monotonic clock, to some tens of microseconds.

The event loop's own timers step by 1 ms; a Linux timerfd armed with an absolute time does not, and does not
drift. Elsewhere the loop's timer is used, and the lateness shows in the report.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Protocol

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_TFD_FLAGS = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_PR_SET_TIMERSLACK = 29


class AbsoluteTimer(Protocol):
    """One moment at a time; arming again replaces it."""

    def arm(self, at_monotonic_ns: int) -> None:
        """Call back at that moment, or as soon as possible when it has passed."""
        ...

    def close(self) -> None: ...


def make_timer(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> AbsoluteTimer:
    """The most exact timer that this system has."""
    if sys.platform == "linux":
        try:
            return TimerFd(loop, callback)
        except OSError:
            pass  # a sandbox may refuse timerfd; the loop's own timer is less exact, and that is measured
    return LoopTimer(loop, callback)


class TimerFd:
    """A timerfd watched by the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        # By default the kernel may wake this thread 50 us late to save power.
        self._libc.prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
        self._fd = self._libc.timerfd_create(_CLOCK_MONOTONIC, _TFD_FLAGS)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = loop
        self._callback = callback
        loop.add_reader(self._fd, self._fire)

    def arm(self, at_monotonic_ns: int) -> None:
        # struct itimerspec: interval (none), then the moment; an all-zero moment would disarm.
        seconds, nanoseconds = divmod(max(at_monotonic_ns, 1), 1_000_000_000)
        spec = struct.pack("qqqq", 0, 0, seconds, nanoseconds)
        if self._libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, spec, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)

    def _fire(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # armed again since the loop saw it ready
        self._callback()


class LoopTimer:
    """The event loop's own timer: steps of 1 ms."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.TimerHandle | None = None

    def arm(self, at_monotonic_ns: int) -> None:
        self.close()
        delay_s = max(0, at_monotonic_ns - time.monotonic_ns()) / 1e9
        self._handle = self._loop.call_later(delay_s, self._callback)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
