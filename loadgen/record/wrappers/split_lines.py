"""Lines that a wrapper carries in several records."""

from __future__ import annotations

from dataclasses import replace

from loadgen.record.line_batch import LineBatch
from loadgen.record.wrappers.wrapper import Unwrapped


class SplitLines:
    """Joins the parts of lines, apart for each stream."""

    def __init__(self) -> None:
        self._parts: dict[str, list[bytes]] = {}
        self._last: dict[str, tuple[LineBatch, str, int]] = {}

    def joined(self, stream: str, part: bytes) -> bytes:
        """The line that ends with `part`."""
        self._last.pop(stream, None)
        return b"".join([*self._parts.pop(stream, []), part])

    def hold(self, stream: str, part: bytes, batch: LineBatch, written: str, number: int) -> None:
        """A part that another follows; it came from line `number` of `batch`."""
        self._parts.setdefault(stream, []).append(part)
        self._last[stream] = (batch, written, number)

    def rest(self) -> LineBatch | None:
        """Lines whose end never came: the log was cut, or a program ended without a line end."""
        if not self._last:
            return None
        batch, _, after = next(reversed(self._last.values()))
        inner = Unwrapped(replace(batch, first_line=after + 1))
        for stream, (_, written, number) in self._last.items():
            inner.add(b"".join(self._parts[stream]), written, number)
        return inner.batch()
