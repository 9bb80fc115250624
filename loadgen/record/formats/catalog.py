"""Which log formats there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from loadgen.errors import RecordError, UsageError
from loadgen.record.formats.csv import CsvFormat
from loadgen.record.formats.jsonl import JsonlFormat
from loadgen.record.formats.log_format import LogFormat
from loadgen.record.formats.nginx import NginxFormat
from loadgen.record.settings import RecordSettings


class _Maker(Protocol):
    """A class of LogFormat."""

    def __call__(self, settings: RecordSettings) -> LogFormat:
        """A reader for one recording."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        """Whether these first lines are of this format."""


# In the order in which `auto` tries them: the more particular first.
FORMATS: Mapping[str, _Maker] = {
    "nginx": NginxFormat,
    "jsonl": JsonlFormat,
    "csv": CsvFormat,
}


def make_format(name: str, settings: RecordSettings, head: Sequence[bytes]) -> tuple[str, LogFormat]:
    """The format called `name`, or for "auto" the one that `head` looks like, with its name.

    Raises UsageError for a name that there is not, RecordError if no format is recognised.
    """
    if name == "auto":
        name = _recognised(head)
    if name not in FORMATS:
        raise UsageError(f"--format is {name!r}", hint=f"give auto, {', '.join(FORMATS)}")
    return name, FORMATS[name](settings)


def _recognised(head: Sequence[bytes]) -> str:
    for name, maker in FORMATS.items():
        if maker.looks_like(head):
            return name
    raise RecordError(
        "the format of the log is not recognised",
        hint=f"say it with --format: {', '.join(FORMATS)}",
    )
