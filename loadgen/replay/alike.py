"""Alike: the events of a stream that differ in their text alone, told from each other without reading them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# The inside of a JSON text that is not empty: UTF-8 without control characters, quotes only where escaped.
# \u escapes are left out, since half of a surrogate pair would make the document none.
_TEXT = re.compile(
    rb'(?:[ !#-\[\]-\x7f]|\\["\\/bfnrt]'
    rb"|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    rb"|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    rb"|\xf4[\x80-\x8f][\x80-\xbf]{2})+"
)
is_text = _TEXT.fullmatch


@dataclass(frozen=True, slots=True)
class Alike:
    """Bytes that begin with `before`, end with `after` and have a JSON text between are such an event.

    start, tail: the lengths of both. Whoever asks first looks at both ends: `is_text` costs most.
    """

    before: bytes
    after: bytes
    start: int
    tail: int

    def matches(self, block: bytes) -> bool:
        return (
            block.startswith(self.before)
            and block.endswith(self.after)
            and is_text(block, self.start, len(block) - self.tail) is not None
        )


def alike_of(block: bytes, event: bytes, texts: Sequence[bytes]) -> Alike | None:
    """What is alike to `block`, the bytes of one whole event whose data is the JSON `event`; None: not known.

    texts: keys whose texts are read for nothing but whether they are empty. The one that varies must be the
    only one of its name in the document: without a backslash, every quote in it begins or ends a text.
    """
    if b"\\" in event or block.count(event) != 1:
        return None
    for key in texts:
        found = re.search(b'"%b" *: *"([^"]+)"' % key, event)
        if found is not None and event.count(b'"%b"' % key) == 1:
            offset = block.index(event)
            before, after = block[: offset + found.start(1)], block[offset + found.end(1) :]
            return Alike(before, after, len(before), len(after))
    return None
