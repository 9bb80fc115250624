"""Wrappers within wrappers: CRI around syslog around JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from loadgen.record.findings import Findings
from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.wrapper import Wrapper


class NestedWrapper:
    """Wrappers taken off one after the other, the outermost first. The moment of the innermost one counts."""

    def __init__(self, wrappers: Sequence[Wrapper]) -> None:
        self._wrappers = tuple(wrappers)

    def looks_like(self, head: Sequence[bytes], /) -> bool:
        for wrapper in self._wrappers:
            if not wrapper.looks_like(head):
                return False
            head = unwrapped_head(wrapper, head)
        return True

    def unwrap(self, batches: Iterable[LineBatch], findings: Findings, /) -> Iterator[LineBatch]:
        for wrapper in self._wrappers:
            batches = wrapper.unwrap(batches, findings)
        yield from batches


def unwrapped_head(wrapper: Wrapper, head: Sequence[bytes]) -> list[bytes]:
    """The inner lines of the first lines of a log; these themselves where none is whole."""
    start = LineBatch("", 0, 1, b"\n".join(head))
    return [line for batch in wrapper.unwrap([start], Findings()) for line in batch.lines()] or list(head)
