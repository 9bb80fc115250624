"""SseScanner: server-sent events out of bytes, however the network cut them.

Follows the event stream rules of the WHATWG HTML standard, section "Server-sent events": lines end in LF, CR
or CRLF and in nothing else, a leading byte order mark is skipped, comments are dropped, data lines are joined
by LF, and an event without data is none.
"""

from __future__ import annotations

_BOM = b"\xef\xbb\xbf"


class SseScanner:
    """Feed it reads as they come; it returns the events that each read completed.

    is_between_events: the stream has begun and nothing of an unfinished event is held.
    """

    __slots__ = ("_data", "_event", "_is_started", "_line", "_skip_lf", "is_between_events")

    def __init__(self) -> None:
        self._line = b""  # the beginning of a line whose end has not come
        self._data: list[bytes] = []
        self._event = b""
        self._skip_lf = False  # the last read ended in CR: a following LF belongs to it
        self._is_started = False
        self.is_between_events = False

    def feed(self, read: bytes) -> list[tuple[bytes, bytes]]:
        """(event name, data) of each event that `read` completed; the name is empty where none was given."""
        if not self._is_started and read.startswith(b"data:"):
            self._is_started = self.is_between_events = True
        if self.is_between_events and read.endswith(b"\n\n") and b"\r" not in read:
            # What nearly every server sends: whole events of one data line each.
            if read.find(b"\n") == len(read) - 2 and read.startswith(b"data: "):
                return [(b"", read[6:-2])]
            events: list[tuple[bytes, bytes]] = []
            for block in read[:-2].split(b"\n\n"):
                if block.startswith(b"data: ") and b"\n" not in block:
                    events.append((b"", block[6:]))
                else:
                    events += self._scan(block + b"\n\n")
            return events
        events = self._scan(read)
        self.is_between_events = (
            self._is_started and not self._skip_lf and not self._line and not self._data and not self._event
        )
        return events

    def _scan(self, read: bytes) -> list[tuple[bytes, bytes]]:
        if self._skip_lf and read:
            self._skip_lf = False
            read = read.removeprefix(b"\n")
        text = self._line + read
        if not self._is_started:
            if len(text) < len(_BOM) and _BOM.startswith(text):
                self._line = text
                return []
            self._is_started = True
            text = text.removeprefix(_BOM)
        if text.endswith(b"\r"):
            self._skip_lf = True
        # After this only LF ends a line: bytes.splitlines would do the same for CR, LF and CRLF, but would
        # also swallow the difference between a finished and an unfinished last line.
        lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        self._line = lines.pop()
        events: list[tuple[bytes, bytes]] = []
        for line in lines:
            if line:
                self._take_line(line)
                continue
            if self._data:
                events.append((self._event, b"\n".join(self._data)))
            self._data = []
            self._event = b""
        return events

    def _take_line(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value
        # A comment (empty name), id, retry and unknown fields say nothing about tokens.
