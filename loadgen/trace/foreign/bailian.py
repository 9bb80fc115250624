"""Bailian traces: chat_id, parent_chat_id, timestamp (s), input_length, output_length, type, turn, hash_ids.

Source: github.com/alibaba-edu/qwen-bailian-usagetraces-anon. timestamp is seconds from the start. hash_ids stand
for blocks of 16 tokens. parent_chat_id is the chat of the turn before, -1 in a first turn: turns that follow each
other are one session, whether or not their first is in the file. A row's lengths cover its whole context, earlier
turns with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from loadgen.errors import TraceError
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.foreign.json_lines import count_of, first_keys, ids_of, json_objects, moment_of
from loadgen.trace.moments import UNIT_NS
from loadgen.trace.sessions import dense_sessions

BLOCK_TOKENS = 16
_NO_PARENT = -1


class BailianFormat:
    """Bailian JSONL."""

    name = "bailian"

    def looks_like(self, head: str) -> bool:
        return {"chat_id", "timestamp", "input_length", "output_length"} <= first_keys(head)

    def read(self, text: str, *, unit: str | None) -> ForeignRequests:
        unit_ns = UNIT_NS[unit or "s"]
        moments: list[int] = []
        inputs: list[int] = []
        outputs: list[int] = []
        blocks: list[list[int] | None] = []
        chats: list[int] = []
        parents: dict[int, int] = {}
        types: Counter[str] = Counter()
        for line, document in json_objects(text):
            moments.append(moment_of(document, "timestamp", line, unit_ns))
            inputs.append(count_of(document, "input_length", line))
            outputs.append(count_of(document, "output_length", line))
            blocks.append(ids_of(document, "hash_ids", line))
            chat, parent = document.get("chat_id"), document.get("parent_chat_id", _NO_PARENT)
            if type(chat) is not int or type(parent) is not int:
                raise TraceError(f"line {line}: chat_id and parent_chat_id are no whole numbers")
            chats.append(chat)
            parents[chat] = parent
            types[str(document.get("type", "text"))] += 1
        moments_ns = np.array(moments, dtype=np.int64)
        has_blocks = any(ids is not None for ids in blocks)
        return ForeignRequests(
            moments_ns=moments_ns,
            columns={
                "input_tokens": inputs,
                "output_tokens": outputs,
                "prefix_blocks": blocks if has_blocks else None,
                "session": dense_sessions(_roots(chats, parents), moments_ns),
            },
            has_epoch=False,
            arrival_from="timestamp",
            unit=unit or "s",
            prefix_block_tokens=BLOCK_TOKENS if has_blocks else None,
            notes=_notes(types),
        )


def _roots(chats: Sequence[int], parents: Mapping[int, int]) -> list[int]:
    """The first chat that each of `chats` goes back to; a parent that is not in the file is one, too."""
    root_of: dict[int, int] = {}
    for chat in chats:
        way = [chat]
        while way[-1] not in root_of:
            parent = parents.get(way[-1], _NO_PARENT)
            # Chats that are their own ancestors are broken data: they stay one session.
            if parent == _NO_PARENT or parent in way:
                break
            way.append(parent)
        root = root_of.get(way[-1], way[-1])
        root_of.update(dict.fromkeys(way, root))
    return [root_of[chat] for chat in chats]


def _notes(types: Counter[str]) -> tuple[str, ...]:
    others = {name: count for name, count in types.items() if name != "text"}
    if not others:
        return ()
    told = ", ".join(f"{count} {name[:20]}" for name, count in sorted(others.items()))
    return (f"types other than text are kept as their lengths alone: {told}",)
