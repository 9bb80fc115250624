"""Errors that a user can act on: what and where, what to do next, and the exit code they end in."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What each verb's exit status means; scripts and CI gates rely on these numbers."""

    OK = 0
    LIMIT_BROKEN = 1
    BAD_INPUT = 2
    INCONCLUSIVE = 3
    RUN_INVALID = 4
    RUN_FAILED = 5
    INTERRUPTED = 130
    TERMINATED = 143


class LoadgenError(Exception):
    """A mistake or a circumstance that ends a verb: one line of fact, one line of advice, no traceback.

    message: what went wrong and where (file, row, flag) with the value.
    hint: what to do next.
    """

    exit_code = ExitCode.BAD_INPUT

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LoadgenError):
    """An option or argument that cannot be used as given."""


class TraceError(LoadgenError):
    """A trace file or value that breaks the trace format."""


class RecordError(LoadgenError):
    """A log that cannot become a trace."""


class ScheduleError(LoadgenError):
    """A shape that cannot be planned over this trace, or a schedule file that cannot be read."""


class RunError(LoadgenError):
    """A run folder that cannot be read or written."""


class TargetError(LoadgenError):
    """The target cannot be reached, or refused before the run began."""

    exit_code = ExitCode.RUN_FAILED


class GeneratorLimit(LoadgenError):
    """This machine cannot carry the run (descriptors, ports): refused before the first send."""

    exit_code = ExitCode.RUN_INVALID
