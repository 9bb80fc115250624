"""Alike: the events of a stream that differ in their text alone, told from each other without reading them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

# The inside of a JSON text that is not empty: UTF-8 without control characters, quotes only where escaped.
# \u escapes are left out, since half of a surrogate pair would make the document none.
_TEXT = re.compile(
    rb'(?:[ !#-\[\]-\x7f]|\\["\\/bfnrt]'
    rb"|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    rb"|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    rb"|\xf4[\x80-\x8f][\x80-\xbf]{2})+"
)
is_text = _TEXT.fullmatch
# The bytes that stand in most texts: printable ASCII, neither quote nor backslash.
PLAIN = bytes(set(range(0x20, 0x80)) - {0x22, 0x5C})


class Alike:
    """Bytes that begin with `before`, end with `after` and have a JSON text between are such an event.

    start, tail: the lengths of both. chunk_after, chunk_tail: the same where the event is a chunk of HTTP, whose
    end follows it. Whoever asks first looks at both ends: `is_text` costs most.
    """

    __slots__ = ("after", "before", "chunk_after", "chunk_tail", "start", "tail")

    def __init__(self, before: bytes, after: bytes) -> None:
        self.before = before
        self.after = after
        self.start = len(before)
        self.tail = len(after)
        self.chunk_after = after + b"\r\n"
        self.chunk_tail = self.tail + 2

    def matches(self, block: bytes) -> bool:
        return (
            block.startswith(self.before)
            and block.endswith(self.after)
            and is_text(block, self.start, len(block) - self.tail) is not None
        )


@cache
def _search_for(key: bytes) -> tuple[bytes, Callable[[bytes], re.Match[bytes] | None]]:
    """A key as it stands in JSON, and what finds its text there."""
    return b'"%b"' % key, re.compile(b'"%b" *: *"([^"]+)"' % key).search


def alike_of(block: bytes, event: bytes, texts: Sequence[bytes]) -> Alike | None:
    """What is alike to `block`, the bytes of one whole event whose data is the JSON `event`; None: not known.

    texts: keys whose texts are read for nothing but whether they are empty. The one that varies must be the
    only one of its name in the document: without a backslash, every quote in it begins or ends a text.
    """
    if b"\\" in event or block.count(event) != 1:
        return None
    for key in texts:
        name, text_of = _search_for(key)
        if event.count(name) == 1 and (found := text_of(event)) is not None:
            offset = block.index(event)
            before, after = block[: offset + found.start(1)], block[offset + found.end(1) :]
            return Alike(before, after)
    return None
