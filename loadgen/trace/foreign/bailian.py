"""Bailian traces: chat_id, parent_chat_id, timestamp (s), input_length, output_length, turn, hash_ids.

Source: github.com/alibaba-edu/qwen-bailian-usagetraces-anon. timestamp is seconds from the start. hash_ids stand
for blocks of 16 tokens. parent_chat_id is the chat of the turn before, -1 in a first turn: turns that follow each
other are one session. A row's lengths cover its whole context, earlier turns with it.
"""

from __future__ import annotations

import numpy as np

from loadgen.errors import TraceError
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.foreign.json_lines import count_of, first_keys, json_objects, moment_text
from loadgen.trace.moments import UNIT_NS, number_ns
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
        sessions: list[int] = []
        session_of: dict[object, int] = {}
        for line, document in json_objects(text):
            try:
                moments.append(number_ns(moment_text(document, "timestamp", line), unit_ns))
            except ValueError as exc:
                raise TraceError(f"line {line}: timestamp: {exc}") from exc
            inputs.append(count_of(document, "input_length", line))
            outputs.append(count_of(document, "output_length", line))
            blocks.append(document.get("hash_ids"))
            parent = document.get("parent_chat_id", _NO_PARENT)
            session = session_of.get(parent, len(session_of)) if parent != _NO_PARENT else len(session_of)
            session_of[document["chat_id"]] = session
            sessions.append(session)
        moments_ns = np.array(moments, dtype=np.int64)
        has_blocks = any(ids is not None for ids in blocks)
        return ForeignRequests(
            moments_ns=moments_ns,
            columns={
                "input_tokens": inputs,
                "output_tokens": outputs,
                "prefix_blocks": blocks if has_blocks else None,
                "session": dense_sessions(sessions, moments_ns),
            },
            has_epoch=False,
            arrival_from="timestamp",
            unit=unit or "s",
            prefix_block_tokens=BLOCK_TOKENS if has_blocks else None,
        )
