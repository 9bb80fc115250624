"""KnownHeads: heads of answers that have been read once; servers send the same one again and again."""

from __future__ import annotations

from dataclasses import dataclass, field

_MOST = 256  # a date in them makes a new one each second; one that differs with each answer is never known
_LONGEST = 4096  # bytes
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Head:
    """What a head says after which chunks come. text: its bytes. headers: names in lower case."""

    text: bytes
    status_code: int
    headers: dict[bytes, bytes]
    is_kept_alive: bool


@dataclass(slots=True)
class KnownHeads:
    """What the same bytes said before, for all connections to one target."""

    _heads: dict[bytes, Head] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._heads)

    def get(self, text: bytes) -> Head | None:
        return self._heads.get(text)

    def learn(self, head: Head) -> None:
        if len(self._heads) >= _MOST:
            self._heads.clear()
        self._heads[head.text] = head


def head_of(read: bytes) -> bytes:
    """The head that a read begins with; empty where it is not whole, or too long to be kept."""
    end = read.find(_END, 0, _LONGEST)
    return b"" if end < 0 else read[: end + len(_END)]
