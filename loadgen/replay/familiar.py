"""Familiar: what events of earlier streams told; those that differ from one in their id alone tell the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loadgen.replay.alike import PLAIN, Alike, alike_of
from loadgen.replay.dialects.dialect import Told

# How servers begin an event that has an id. Nearly all put it first, and no reader asks for it.
_ID = b'{"id":"'
_DATA_ID = b"data: " + _ID
_MOST, _LONGEST = 256, 4096  # events, bytes; some say a time in seconds, and are new each second


class Familiar:
    """For the streams of one dialect whose reader is without memory (see Reader.texts)."""

    __slots__ = ("_after", "_middle", "_told")

    def __init__(self) -> None:
        self._told: dict[bytes, Told] = {}  # by what follows the id
        # Of the last block whose like was known: what stands between its id and its text, and after that.
        self._middle = self._after = b""

    def told(self, read: Callable[[bytes, bytes], Told], name: bytes, event: bytes) -> Told:
        """What read(name, event) says or, of an event like this one, has said."""
        id_end = event.find(b'"', len(_ID), _LONGEST)
        if name or not event.startswith(_ID) or not _is_plain(event[len(_ID) : id_end]):
            return read(name, event)
        rest = event[id_end:]
        told = self._told.get(rest)
        if told is None:
            told = read(name, event)
            if told.error is None and len(rest) < _LONGEST:
                if len(self._told) >= _MOST:
                    self._told.clear()
                self._told[rest] = told
        return told

    def alike_of(self, block: bytes, event: bytes, texts: Sequence[bytes]) -> Alike | None:
        """As alike.alike_of; found at once where the block differs from an earlier one in its id and its text."""
        id_end = block.find(b'"', len(_DATA_ID))
        if not block.startswith(_DATA_ID) or not _is_plain(block[len(_DATA_ID) : id_end]):
            return alike_of(block, event, texts)
        text_at = id_end + len(self._middle)
        text = block[text_at : -len(self._after)]
        if (
            block.startswith(self._middle, id_end)
            and block.endswith(self._after)
            and text
            and _is_plain(text)
        ):
            return Alike(block[:text_at], self._after)
        alike = alike_of(block, event, texts)
        if alike is not None and alike.start > id_end:
            self._middle, self._after = alike.before[id_end:], alike.after
        return alike


def _is_plain(text: bytes) -> bool:
    return not text.translate(None, PLAIN)
