"""LineScanner: one document a line out of bytes, however the network cut them."""

from __future__ import annotations


class LineScanner:
    """Feed it reads as they come; it returns the lines that each read completed. Empty lines are none.

    A line ends in LF or in NUL, with CR before it or without: JSON holds none of them unescaped.
    """

    __slots__ = ("_line",)

    is_between_events = False  # not known

    def __init__(self) -> None:
        self._line = b""

    def feed(self, read: bytes) -> list[tuple[bytes, bytes]]:
        """(b"", line) of each line that `read` completed: the form in which server-sent events come, too."""
        lines = (self._line + read).replace(b"\0", b"\n").split(b"\n")
        self._line = lines.pop()
        return [(b"", line) for line in map(bytes.strip, lines) if line]
