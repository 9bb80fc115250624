"""TokenizerFile: a tokenizer.json of the Hugging Face form; the one module that knows its library."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from loadgen.errors import ScheduleError, UsageError

# Signs that mark a token as the beginning of a word: byte-level BPE, SentencePiece.
_WORD_MARKS = "Ġ▁ "


class TokenizerFile:
    """Counts tokens as a server with this tokenizer does, without the special tokens that it adds around a prompt.

    Raises UsageError where the library is missing, ScheduleError for a file that is no tokenizer.
    """

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer  # noqa: PLC0415  # an extra
        except ImportError as exc:
            raise UsageError(
                "--tokenizer needs the package tokenizers", hint="pip install 'loadgen[tokenizer]'"
            ) from exc
        file = path / "tokenizer.json" if path.is_dir() else path
        if not file.is_file():
            raise ScheduleError(f"{file}: no such file", hint="give a tokenizer.json, or a folder with one")
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(file))
        except Exception as exc:  # the library raises nothing more special
            detail = str(exc).splitlines()[0]
            raise ScheduleError(
                f"{file}: cannot be read as a tokenizer ({detail})", hint="give a tokenizer.json"
            ) from exc
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        """Tokens of `text`."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def words(self) -> list[str]:
        """Words of lower-case letters that the vocabulary holds, in the order of their ids."""
        vocabulary: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=False)
        stripped = (token.strip(_WORD_MARKS) for token in sorted(vocabulary, key=vocabulary.__getitem__))
        return list(
            dict.fromkeys(
                word
                for word in stripped
                if len(word) > 1 and word.isascii() and word.isalpha() and word.islower()
            )
        )

    def letters_that_never_join(self) -> str:
        """Letters that are each a token of its own, and of which no two stand side by side in any other token."""
        letters = "qzxjvkwyfbghdmpuclotnriaesQZXJVKWYFBGHDMPUCLOTNRIAES"
        of_token: dict[int, str] = {}
        for letter, ids in zip(letters, self.ids([*letters]), strict=True):
            if len(ids) == 1:
                of_token.setdefault(ids[0], letter)
        pairs = {pair for token in self._tokenizer.get_vocab() for pair in pairwise(token)}
        found = ""
        for letter in of_token.values():
            joined = found + letter
            if not any((letter, other) in pairs or (other, letter) in pairs for other in joined):
                found = joined
        return found

    def cuts_at_every_word(self, words: Sequence[str]) -> bool:
        """Whether these words, a space between, are cut into one piece each before any of them is tokenised."""
        pre_tokenizer = self._tokenizer.pre_tokenizer
        if pre_tokenizer is None:
            return False
        text = " ".join(words)
        if self._tokenizer.normalizer is not None:
            text = self._tokenizer.normalizer.normalize_str(text)
        return len(pre_tokenizer.pre_tokenize_str(text)) == len(words)
