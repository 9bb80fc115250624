"""PromptMaker: texts of the planned length, made from a seed; no text of anybody's is needed or kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

# English text in common tokenizers: about four characters a token.
CHARS_PER_TOKEN = 4

_CORPUS_CHARS = 1 << 20
# Lower-case letters with a space about every fifth: words to a tokenizer, without a character that JSON escapes.
_ALPHABET = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz      ", dtype=np.uint8)
_HEAD_DIGITS = "abcdefghijklmnop"  # sixteen letters: 64 bits in 16 of them
_MIX = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: consecutive numbers land far apart
_MASK = (1 << 64) - 1


class Prompts(Protocol):
    """Makes the texts of a schedule's rows; lengths are in a unit of its own, characters or tokens."""

    def lengths(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """How long each row's text is to be."""
        ...

    def text(self, key: int, length: int, blocks: Sequence[int] = ()) -> str:
        """The text of request `key`, beginning with that of `blocks`; a longer one begins with a shorter one."""
        ...


def mixed_key(key: int, seed: int, salt: int) -> int:
    """64 bits of a request or block, other ones for every key; those of neighbours are far apart."""
    return ((key + 1) * _MIX + (seed << 8) + salt) & _MASK


@dataclass(frozen=True, slots=True)
class PromptMaker:
    """Prompts for a schedule's rows; the same seed and row give the same text, on any machine.

    chars_per_token: how many characters stand for a token where only tokens are known. Exact for the bundled
    target at 1 (its token is a byte), approximate for others.
    prefix_block_tokens: tokens of a trace's prefix block. Rows that share leading block ids share the text of
    those blocks; all other texts differ from their first characters on, so that no prefix cache helps by
    accident (as far as the length leaves room: 16 characters tell all rows apart).
    """

    seed: int = 0
    chars_per_token: int = CHARS_PER_TOKEN
    prefix_block_tokens: int | None = None
    _corpus: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        letters = np.random.default_rng(self.seed).integers(0, len(_ALPHABET), _CORPUS_CHARS)
        object.__setattr__(self, "_corpus", _ALPHABET[letters].tobytes().decode("ascii"))

    def lengths(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """Characters to send for each row of a schedule's table: of its tokens, else characters, else bytes."""
        tokens = pc.multiply(rows.column("input_tokens").cast(pa.int64()), self.chars_per_token)
        known = pc.coalesce(tokens, rows.column("input_chars"), rows.column("input_bytes"), 1)
        return np.maximum(np.asarray(known.to_numpy(), dtype=np.int64), 1)

    def text(self, key: int, length: int, blocks: Sequence[int] = ()) -> str:
        """`length` characters for the request `key`, beginning with the texts of `blocks`."""
        shared = ""
        if blocks and self.prefix_block_tokens:
            block_chars = self.prefix_block_tokens * self.chars_per_token
            # The last block may be partly filled; what of it fits is shared with whoever has the same one.
            shared = "".join(self._unlike(block, block_chars, salt=1) for block in blocks)[:length]
        return shared + self._unlike(key, length - len(shared), salt=2)

    def _unlike(self, key: int, length: int, salt: int) -> str:
        """Text that differs from every other key's in its first 16 characters."""
        mixed = mixed_key(key, self.seed, salt)
        head = "".join(_HEAD_DIGITS[(mixed >> shift) & 15] for shift in range(60, -4, -4))
        if length <= len(head):
            return head[:length]
        start = mixed % _CORPUS_CHARS
        body = length - len(head)
        text = self._corpus[start : start + body]
        while len(text) < body:
            text += self._corpus[: body - len(text)]
        return head + text
