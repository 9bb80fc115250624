"""Prompts -> ids of their leading blocks, which tell what prompts have in common and nothing else.

Two prompts share the ids of the blocks up to where they first differ, as a server's prefix cache sees them
(Mooncake, arXiv 2407.00079, `hash_ids`). An id is a hash over the salt of the recording, the id before it and the
block: without the salt, which is kept nowhere, not even a known prompt can be recognised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson

from loadgen.trace.schema import SCHEMA

# As vLLM's blocks are by default.
BLOCK_TOKENS = 16
# What stands for a token where the log holds texts only, as elsewhere (plan.prompts).
_CHARS_PER_TOKEN = 4
_MASK = (1 << 63) - 1

PREFIX_TYPE = SCHEMA.field("prefix_blocks").type


@dataclass(frozen=True, slots=True)
class PrefixBlocks:
    """Makes the ids of prompts' blocks, of 16 tokens where their ids are known, else of 64 characters."""

    salt: bytes

    def of(self, prompt: Any) -> list[int] | None:
        """int64 ids, 0 or more, of a text, a list of token ids or a list of chat messages; None for none of these.

        The last block may be partly filled: it is shared with prompts that end alike.
        """
        if isinstance(prompt, str):
            return list(self._ids(_cut(prompt.encode("utf-8", "surrogatepass"), prompt)))
        if not isinstance(prompt, list) or not prompt:
            return None
        if all(type(item) is int for item in prompt):
            return self.of_token_ids(prompt)
        text = "".join(_flat(prompt))
        return list(self._ids(_cut(text.encode("utf-8", "surrogatepass"), text)))

    def of_token_ids(self, token_ids: Sequence[int]) -> list[int]:
        """The same of token ids."""
        blocks = (token_ids[start : start + BLOCK_TOKENS] for start in range(0, len(token_ids), BLOCK_TOKENS))
        return list(self._ids(",".join(map(str, block)).encode() for block in blocks))

    def _ids(self, blocks: Iterator[bytes]) -> Iterator[int]:
        before = b""
        for block in blocks:
            before = blake2b(before + block, digest_size=8, key=self.salt).digest()
            yield int.from_bytes(before, "little") & _MASK


def _cut(encoded: bytes, text: str) -> Iterator[bytes]:
    size = BLOCK_TOKENS * _CHARS_PER_TOKEN
    if len(encoded) == len(text):
        return (encoded[start : start + size] for start in range(0, len(encoded), size))
    return (
        text[start : start + size].encode("utf-8", "surrogatepass") for start in range(0, len(text), size)
    )


def _flat(messages: Sequence[Any]) -> Iterator[str]:
    """Chat messages as one text: roles, texts, and whatever else is a part, in their order."""
    for message in messages:
        if isinstance(message, dict) and "role" in message:
            yield f"\n{message['role']}\n"
            content = message.get("content")
            parts = content if isinstance(content, list) else [content]
            yield from (_text(part) for part in parts)
        else:
            yield _text(message)


def _text(part: Any) -> str:
    """A part's text; of a picture or a call whatever stands for it."""
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    return part if isinstance(part, str) else orjson.dumps(part, option=orjson.OPT_SORT_KEYS).decode()
