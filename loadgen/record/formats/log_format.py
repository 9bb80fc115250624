"""The seam for log formats: recognise one, say what its stamp means, and read its requests.

To add a format: one file beside this one with a class of this shape, and one line in catalog.py. A
reader gets whole lines, file by file, oldest first; what spans lines (quoted line breaks, a request and its
answer) is held in local variables of `read`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch


@dataclass(frozen=True, slots=True)
class StampFacts:
    """What the stamps of a log mean: "arrival" or "completion", and how the arrival was got, in words.

    resolution_ns: a lower bound of the format, beside what the stamps show; None without one.
    zone: the zone that was assumed for stamps without their own. is_relative: stamps are of a clock without an
    epoch, so that only gaps are known.
    """

    marks: str
    arrival_from: str
    resolution_ns: int | None = None
    zone: str | None = None
    is_relative: bool = False


class LogFormat(Protocol):
    """One log format, made with the settings of the recording.

    One whose lines tell all by themselves says `order_matters = False`, and is then read by several processes. One
    whose lines hold no paths says in `needs` what marks a request: the advice where none was found.
    """

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        """The requests in `batches`, in their order; what else was found goes to `findings`.

        Raises RecordError if the log cannot be recorded like this, whatever else it holds.
        """

    def stamp_facts(self) -> StampFacts:
        """What the stamps meant; asked after `read`."""

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        """Whether these first lines of a log are of this format."""
