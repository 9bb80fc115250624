"""AIPerf's inputs with times: timestamp (ms) of a session's first turn, delay (ms) before each turn that follows.

Source: docs.nvidia.com/aiperf, trace replay, multi-turn conversations and conversation context mode. A turn is an
object of input_length, or of texts (text_input, text, messages, payload), with output_length, hash_ids (blocks of
512 tokens) and session_id; a line may hold several as `turns`.

- delay is counted from the end of the turn before, which no file tells: arrivals of later turns are counted from
  its arrival, so they come too early by what an answer takes.
- A later turn holds what is new: AIPerf sends it behind all turns before and their answers, so these count into
  its length. messages (unless message_mode is delta), payload and context_mode message_array_with_responses
  hold all of it already, and so does each line of a single turn.
- inputs.json holds payloads without times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from loadgen.errors import TraceError
from loadgen.openai_texts import input_chars
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.foreign.json_lines import count_of, first_keys, ids_of, json_objects, moment_of
from loadgen.trace.foreign.mooncake import BLOCK_TOKENS
from loadgen.trace.moments import UNIT_NS
from loadgen.trace.sessions import dense_sessions

_OWN_KEYS = {"session_id", "delay", "text_input", "text", "texts", "turns", "payload", "messages"}
_WHOLE = "message_array_with_responses"
_COLUMNS = ("input_tokens", "input_chars", "output_tokens", "prefix_blocks", "model", "stream")


@dataclass(slots=True)
class _Session:
    """What the turns so far have put before the next one."""

    moment_ns: int
    tokens: int = 0
    chars: int = 0
    # Of the first turn only: what follows it begins within a block.
    whole_blocks: list[int] | None = None
    num_turns: int = 0


class AiperfFormat:
    """AIPerf JSONL: traces with sessions, and conversations of turns."""

    name = "aiperf"

    def looks_like(self, head: str) -> bool:
        if '"payloads"' in head[:2000] and '"data"' in head[:2000]:
            return True
        keys = first_keys(head)
        # chat_id and body: Bailian's and EvalScope's own.
        if keys & {"chat_id", "body"}:
            return False
        return bool(_OWN_KEYS & keys) and bool({"timestamp", "delay", "turns", "input_length"} & keys)

    def read(self, text: str, *, unit: str | None) -> ForeignRequests:
        if text.lstrip().startswith("{") and '"payloads"' in text[:2000]:
            raise TraceError(
                "inputs.json holds payloads without times: there are no arrivals",
                hint="convert the file that was given to AIPerf as --input-file",
            )
        unit_ns = UNIT_NS[unit or "ms"]
        moments: list[int] = []
        rows: list[dict[str, Any]] = []
        names: list[str | None] = []
        sessions: dict[str, _Session] = {}
        num_delayed = num_behind = 0
        for line, document in json_objects(text):
            for turn, is_whole in _turns(document, line):
                name = None if turn.get("session_id") is None else str(turn["session_id"])
                session = sessions.get(name) if name is not None else None
                moment_ns = _moment_ns(turn, line, unit_ns, None if session is None else session.moment_ns)
                row = _row(turn, line)
                num_delayed += turn.get("timestamp") is None
                if name is not None:
                    session = session or _Session(moment_ns)
                    session.moment_ns = moment_ns
                    num_behind += session.num_turns > 0 and not is_whole
                    _put_behind(row, session, is_whole)
                    sessions[name] = session
                moments.append(moment_ns)
                names.append(name)
                rows.append(row)
        moments_ns = np.array(moments, dtype=np.int64)
        columns: dict[str, Any] = {
            column: [row[column] for row in rows] if any(row[column] is not None for row in rows) else None
            for column in _COLUMNS
        }
        if sessions:
            columns["session"] = dense_sessions(names, moments_ns)
        return ForeignRequests(
            moments_ns=moments_ns,
            columns=columns,
            has_epoch=False,
            arrival_from="timestamp, and delay after the arrival of the turn before",
            unit=unit or "ms",
            prefix_block_tokens=None if columns["prefix_blocks"] is None else BLOCK_TOKENS,
            notes=_notes(num_delayed, num_behind),
        )


def _notes(num_delayed: int, num_behind: int) -> tuple[str, ...]:
    notes: list[str] = []
    if num_delayed:
        notes.append(
            f"{num_delayed} turns have no time of their own: they come too early by what the answer before "
            "takes, which the file does not tell"
        )
    if num_behind:
        notes.append(
            f"{num_behind} turns are counted with the turns before them, and with those of their answers "
            "that are known in the same unit, as AIPerf sends them"
        )
    return tuple(notes)


def _turns(document: dict[str, Any], line: int) -> list[tuple[dict[str, Any], bool]]:
    """(turn, whether it holds all that is sent) of a line: of a conversation, or the line itself."""
    turns = document.get("turns")
    if turns is None:
        return [(document, _is_whole(document))]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise TraceError(f"line {line}: turns is no list of objects")
    session = document.get("session_id", f"line {line}")
    return [({"session_id": session, **turn}, False) for turn in turns]


def _is_whole(turn: dict[str, Any]) -> bool:
    if turn.get("message_mode") == "delta":
        return False
    return turn.get("context_mode") == _WHOLE or any(
        turn.get(key) is not None for key in ("messages", "payload", "text", "texts")
    )


def _moment_ns(turn: dict[str, Any], line: int, unit_ns: int, before_ns: int | None) -> int:
    if turn.get("timestamp") is not None:
        return moment_of(turn, "timestamp", line, unit_ns)
    if before_ns is None:
        raise TraceError(
            f"line {line}: a first turn has no timestamp", hint="only files with times can be converted"
        )
    # Without a delay it follows the answer at once.
    return before_ns + (moment_of(turn, "delay", line, unit_ns) if turn.get("delay") is not None else 0)


def _row(turn: dict[str, Any], line: int) -> dict[str, Any]:
    """What the turn alone says."""
    payload = turn.get("payload")
    body: dict[str, Any] = payload if isinstance(payload, dict) else turn
    text = turn.get("text_input", turn.get("text"))
    request: dict[str, Any] = body if text is None else {"prompt": text}
    if turn.get("texts") is not None:
        request = {"input": turn["texts"]}
    has_tokens = turn.get("input_length") is not None
    has_output = turn.get("output_length") is not None
    model, stream = body.get("model"), body.get("stream")
    return {
        "input_tokens": count_of(turn, "input_length", line) if has_tokens else None,
        "input_chars": None if has_tokens else input_chars(request),
        "output_tokens": count_of(turn, "output_length", line) if has_output else None,
        "prefix_blocks": ids_of(turn, "hash_ids", line),
        "model": model if isinstance(model, str) else None,
        "stream": stream if isinstance(stream, bool) else None,
    }


def _put_behind(row: dict[str, Any], session: _Session, is_whole: bool) -> None:
    """Add to `row` what `session` puts before it, and to `session` what `row` puts before the next."""
    blocks: list[int] | None = row["prefix_blocks"]
    if session.num_turns and not is_whole:
        if row["input_tokens"] is not None:
            row["input_tokens"] += session.tokens
        if row["input_chars"] is not None:
            row["input_chars"] += session.chars
        row["prefix_blocks"] = session.whole_blocks
    if not session.num_turns and blocks is not None:
        session.whole_blocks = blocks[: (row["input_tokens"] or 0) // BLOCK_TOKENS]
    if row["input_tokens"] is not None:
        session.tokens = row["input_tokens"] + (row["output_tokens"] or 0)
    if row["input_chars"] is not None:
        session.chars = row["input_chars"]
    session.num_turns += 1
