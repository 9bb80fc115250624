"""Which wrappers there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadgen.errors import UsageError
from loadgen.record.wrappers.cri import CriWrapper
from loadgen.record.wrappers.docker import DockerWrapper
from loadgen.record.wrappers.documents import CloudwatchWrapper, LokiWrapper
from loadgen.record.wrappers.journald import JournaldWrapper
from loadgen.record.wrappers.wrapper import Wrapper

WRAPPERS: Mapping[str, type[Wrapper]] = {
    "docker": DockerWrapper,
    "cri": CriWrapper,
    "journald": JournaldWrapper,
    "cloudwatch": CloudwatchWrapper,
    "loki": LokiWrapper,
}


def find_wrapper(name: str, head: Sequence[bytes]) -> tuple[str, type[Wrapper]] | None:
    """The wrapper called `name`; for "auto" the one that `head` looks like; None for "none" or without one.

    Raises UsageError for a name that there is not.
    """
    if name == "none":
        return None
    if name == "auto":
        return next(((known, kind) for known, kind in WRAPPERS.items() if kind.looks_like(head)), None)
    if name not in WRAPPERS:
        raise UsageError(f"--wrapper is {name!r}", hint=f"give auto, none, {', '.join(WRAPPERS)}")
    return name, WRAPPERS[name]
