"""Record a log while it is written: a complete trace on disk at all times."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from loadgen.record.fidelity import Fidelity
from loadgen.record.followed_log import FollowedLog
from loadgen.record.recorder import Recorder
from loadgen.record.sources import FollowedSources, LogSources

# How often the trace is written, at least; more rarely when writing it takes more than a 20th of the time.
_WRITE_EVERY_S = 5.0
_MOST_SHARE = 1 / 20


def follow_logs(
    recorder: Recorder,
    path: Path,
    target: Path,
    *,
    stopped: Callable[[], bool],
    on_written: Callable[[Fidelity], None] = lambda fidelity: None,
    now_s: Callable[[], float] = time.monotonic,
) -> Fidelity:
    """Record `recorder`'s logs, then `path` (one of them, or `-`) as it grows, into `target`, until `stopped`.

    The trace is replaced whole every few seconds: whoever reads it finds all requests but the last ones.
    on_written: told each time. Raises RecordError if there was no request at all.
    """
    complete = LogSources([one for one in recorder.paths if one != path], lambda num_bytes: None)
    followed = FollowedLog(path, stopped)
    num_written, next_write_s = 0, now_s()
    for num_rows in recorder.read(FollowedSources(complete, followed)):
        if num_rows > num_written and now_s() >= next_write_s:
            started_s = now_s()
            on_written(recorder.recording().write(target))
            num_written = num_rows
            took_s = now_s() - started_s
            next_write_s = now_s() + max(_WRITE_EVERY_S, took_s / _MOST_SHARE)
    return recorder.recording().write(target)
