"""Progress of reading, on standard error: a bar on a terminal, a plain line every 2 s elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from loadgen.cli import console

_EVERY_S = 2.0


class ByteProgress:
    """Bytes read of a known or unknown total; silent for work that ends within 2 s when piped.

    total_bytes: None when it cannot be known (standard input).
    """

    def __init__(self, label: str, total_bytes: int | None) -> None:
        self._label = label
        self._total_bytes = total_bytes
        self._done_bytes = 0
        self._started_s = self._told_s = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> ByteProgress:
        if sys.stderr.isatty():
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
                console=console.err(),
                transient=True,
            )
            self._bar.add_task(self._label, total=self._total_bytes)
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, num_bytes: int) -> None:
        """Count `num_bytes` more as read, and tell so if it is time."""
        self._done_bytes += num_bytes
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], advance=num_bytes)
            return
        now_s = time.monotonic()
        if now_s - self._told_s < _EVERY_S:
            return
        self._told_s = now_s
        rate = self._done_bytes / 1e6 / (now_s - self._started_s)
        of_total = f" of {self._total_bytes / 1e6:.0f} MB" if self._total_bytes else " MB"
        console.note(f"{self._label}: {self._done_bytes / 1e6:.0f}{of_total}, {rate:.0f} MB/s")


class CountNote:
    """Tells on standard error, every 2 s, how many of a kind are done."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._count = 0
        self._told_s = time.monotonic()

    def advance(self) -> None:
        """Count one more."""
        self._count += 1
        now_s = time.monotonic()
        if now_s - self._told_s >= _EVERY_S:
            self._told_s = now_s
            console.note(f"{self._count} {self._what}")


class SlowNote:
    """Tells once, on standard error, what is being done, if it takes longer than `after_s`."""

    def __init__(self, message: str, after_s: float = _EVERY_S) -> None:
        self._timer = threading.Timer(after_s, console.note, (message,))
        self._timer.daemon = True

    def __enter__(self) -> SlowNote:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
