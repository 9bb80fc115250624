"""TokenPrompts: texts of exactly so many tokens of a given tokenizer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from loadgen.errors import ScheduleError, UsageError
from loadgen.plan.prompts import CHARS_PER_TOKEN, PromptMaker, Prompts, mixed_key
from loadgen.plan.tokenizer_file import TokenizerFile

_CORPUS_UNITS = 1 << 16
_MOST_UNITS = 4096
_FEWEST_WORDS = 8
_REPAIRS = 64
_PROOF_LENGTHS = (*range(1, 40), 64, 100, 127, 512, 1000, 3001)


@dataclass(frozen=True, slots=True)
class TokenPrompts:
    """Prompts for a schedule's rows, made of units that are one token each wherever they stand.

    units: words that a space is put between, or single letters. separator: that space, or nothing.
    checked_by: counts each text again, where the tokenizer does not cut at every word first; None where it does, so
    that the count is certain.
    prefix_block_tokens: rows that share leading block ids share the text, and the tokens, of those blocks; all
    other texts differ from their first tokens on.
    """

    seed: int
    units: tuple[str, ...]
    separator: str
    prefix_block_tokens: int | None = None
    checked_by: TokenizerFile | None = None
    _corpus: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        drawn = np.random.default_rng(self.seed).integers(0, len(self.units), _CORPUS_UNITS)
        object.__setattr__(self, "_corpus", tuple(self.units[place] for place in drawn.tolist()))

    def lengths(self, rows: pa.Table) -> npt.NDArray[np.int64]:
        """Tokens to send for each row of a schedule's table; of its characters or bytes where it tells none."""
        texts = pc.coalesce(rows.column("input_chars"), rows.column("input_bytes"))
        of_texts = pc.divide(pc.cast(texts, pa.float64()), self.chars_per_token)
        known = pc.coalesce(
            pc.cast(rows.column("input_tokens"), pa.int64()), pc.cast(pc.round(of_texts), pa.int64()), 1
        )
        return np.maximum(np.asarray(known.to_numpy(), dtype=np.int64), 1)

    @property
    def chars_per_token(self) -> float:
        """Characters that a token of these texts has, on average."""
        return sum(map(len, self.units)) / len(self.units) + len(self.separator)

    def text(self, key: int, length: int, blocks: Sequence[int] = ()) -> str:
        """`length` tokens for the request `key`, beginning with those of `blocks`."""
        units: list[str] = []
        if blocks and self.prefix_block_tokens:
            size = self.prefix_block_tokens
            for block in blocks[: -(-length // size)]:
                units += self._unlike(block, size, salt=1)
            del units[length:]
        units += self._unlike(key, length - len(units), salt=2)
        if self.checked_by is None:
            return self.separator.join(units)
        return self._exact(self.checked_by, units, length)

    def _unlike(self, key: int, length: int, salt: int) -> list[str]:
        """Units that differ from every other key's among the first of them."""
        mixed = mixed_key(key, self.seed, salt)
        rest, head = mixed, []
        for _ in range(min(length, self.head_tokens)):
            rest, place = divmod(rest, len(self.units))
            head.append(self.units[place])
        start = mixed % _CORPUS_UNITS
        units = head
        while len(units) < length:
            taken = self._corpus[start : start + length - len(units)]
            units.extend(taken)
            start = 0
        return units

    @property
    def head_tokens(self) -> int:
        """After so many tokens all keys differ."""
        return math.ceil(64 / math.log2(len(self.units)))

    def _exact(self, tokenizer: TokenizerFile, units: list[str], length: int) -> str:
        """The units, with some more or fewer at the end, so that the tokenizer counts `length`."""
        more = iter(self._corpus)
        for _ in range(_REPAIRS):
            text = self.separator.join(units)
            count = tokenizer.count(text)
            if count == length:
                return text
            if count < length:
                units.extend(unit for unit, _ in zip(more, range(length - count), strict=False))
            else:
                del units[max(1, len(units) - (count - length)) :]
        return text


def prompts_for(
    tokenizer: Path | None, *, seed: int, chars_per_token: int, prefix_block_tokens: int | None
) -> Prompts:
    """Prompts of exactly so many tokens where a tokenizer is given, else of about so many.

    Raises UsageError where both ways are asked for.
    """
    if tokenizer is None:
        return PromptMaker(seed, chars_per_token, prefix_block_tokens)
    if chars_per_token != CHARS_PER_TOKEN:
        raise UsageError("--tokenizer and --chars-per-token exclude each other", hint="give one of them")
    return token_prompts(tokenizer, seed, prefix_block_tokens)


def token_prompts(path: Path, seed: int, prefix_block_tokens: int | None) -> TokenPrompts:
    """Prompts for the tokenizer in `path`. Raises ScheduleError where none of exact length can be made of it."""
    tokenizer = TokenizerFile(path)
    words = _words_of_one_token(tokenizer)
    if len(words) >= _FEWEST_WORDS:
        is_certain = tokenizer.cuts_at_every_word(words)
        prompts = TokenPrompts(seed, words, " ", prefix_block_tokens, None if is_certain else tokenizer)
        if _is_exact(prompts, tokenizer):
            return prompts
        prompts = TokenPrompts(seed, words, " ", prefix_block_tokens, tokenizer)
        if _is_exact(prompts, tokenizer):
            return prompts
    letters = tokenizer.letters_that_never_join()
    if len(letters) > 1:
        prompts = TokenPrompts(seed, tuple(letters), "", prefix_block_tokens)
        if _is_exact(prompts, tokenizer):
            return prompts
    raise ScheduleError(
        f"{path}: no prompts of exact length can be made of this tokenizer's tokens",
        hint="leave --tokenizer out; --chars-per-token makes them of about the right length",
    )


def _words_of_one_token(tokenizer: TokenizerFile) -> tuple[str, ...]:
    """Words that are one token at the beginning and after another word, no two of them the same token."""
    candidates = tokenizer.words()
    alone = tokenizer.ids(candidates)
    candidates = [word for word, ids in zip(candidates, alone, strict=True) if len(ids) == 1]
    if not candidates:
        return ()
    before = candidates[0]
    base = tokenizer.ids([before])[0]
    found: dict[int, str] = {}
    for word, ids in zip(candidates, tokenizer.ids([f"{before} {word}" for word in candidates]), strict=True):
        if len(ids) == 2 and ids[0] == base[0]:
            found.setdefault(ids[1], word)
    return tuple(list(found.values())[:_MOST_UNITS])


def _is_exact(prompts: TokenPrompts, tokenizer: TokenizerFile) -> bool:
    """Whether texts of many lengths, and all units in their places, count as they should."""
    texts = [prompts.text(key, length) for key, length in enumerate(_PROOF_LENGTHS)]
    if [len(ids) for ids in tokenizer.ids(texts)] != list(_PROOF_LENGTHS):
        return False
    return tokenizer.count(prompts.separator.join(prompts.units)) == len(prompts.units)
