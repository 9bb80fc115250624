"""AIPerf's inputs with times: timestamp (ms) of a session's first turn, delay (ms) before each turn that follows.

Source: docs.nvidia.com/aiperf, trace replay and multi-turn conversations. A turn is an object of input_length, or
of texts (text_input, messages), with output_length, hash_ids (blocks of 512 tokens) and session_id. delay is
counted from the end of the turn before, which no file tells: arrivals of later turns are counted from its arrival,
so they come too early by what an answer takes. inputs.json holds payloads without times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from loadgen.errors import TraceError
from loadgen.openai_texts import input_chars
from loadgen.trace.foreign.foreign_format import ForeignRequests
from loadgen.trace.foreign.json_lines import count_of, first_keys, json_objects, moment_text
from loadgen.trace.foreign.mooncake import BLOCK_TOKENS
from loadgen.trace.moments import UNIT_NS, number_ns
from loadgen.trace.sessions import dense_sessions

_OWN_KEYS = {"session_id", "delay", "text_input", "texts", "turns", "payload"}


class AiperfFormat:
    """AIPerf JSONL: traces with sessions, and conversations of turns."""

    name = "aiperf"

    def looks_like(self, head: str) -> bool:
        keys = first_keys(head)
        if '"payloads"' in head[:2000] and '"data"' in head[:2000]:
            return True
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
        sessions: list[str | None] = []
        last_of: dict[str, int] = {}
        for line, document in json_objects(text):
            for turn in _turns(document, line):
                session = turn.get("session_id")
                name = None if session is None else str(session)
                moments.append(_moment_ns(turn, line, unit_ns, last_of.get(name) if name else None))
                if name is not None:
                    last_of[name] = moments[-1]
                sessions.append(name)
                rows.append(_lengths(turn, line))
        moments_ns = np.array(moments, dtype=np.int64)
        columns: dict[str, Any] = {
            name: [row[name] for row in rows] if any(row[name] is not None for row in rows) else None
            for name in ("input_tokens", "input_chars", "output_tokens", "prefix_blocks")
        }
        if any(session is not None for session in sessions):
            columns["session"] = dense_sessions(sessions, moments_ns)
        has_blocks = columns["prefix_blocks"] is not None
        has_delays = len(set(sessions) - {None}) < sum(session is not None for session in sessions)
        return ForeignRequests(
            moments_ns=moments_ns,
            columns=columns,
            has_epoch=False,
            arrival_from="timestamp, and delay after the arrival of the turn before",
            unit=unit or "ms",
            prefix_block_tokens=BLOCK_TOKENS if has_blocks else None,
            notes=(
                ("later turns come too early by what the answer before takes: the file does not tell it",)
                if has_delays
                else ()
            ),
        )


def _turns(document: dict[str, Any], line: int) -> list[dict[str, Any]]:
    """The turns of a line: of a conversation, or the line itself."""
    turns = document.get("turns")
    if turns is None:
        return [document]
    if not isinstance(turns, list) or not all(isinstance(turn, dict) for turn in turns):
        raise TraceError(f"line {line}: turns is no list of objects")
    session = document.get("session_id", f"line {line}")
    return [{"session_id": session, **turn} for turn in turns]


def _moment_ns(turn: dict[str, Any], line: int, unit_ns: int, before_ns: int | None) -> int:
    key = "timestamp" if turn.get("timestamp") is not None else "delay"
    if key == "delay" and before_ns is None:
        raise TraceError(
            f"line {line}: a first turn has no timestamp", hint="only files with times can be converted"
        )
    if key == "delay" and turn.get("delay") is None:
        return before_ns or 0
    try:
        moment_ns = number_ns(moment_text(turn, key, line), unit_ns)
    except ValueError as exc:
        raise TraceError(f"line {line}: {key}: {exc}") from exc
    return moment_ns if key == "timestamp" else moment_ns + (before_ns or 0)


def _lengths(turn: dict[str, Any], line: int) -> dict[str, Any]:
    body = turn.get("payload") if isinstance(turn.get("payload"), dict) else turn
    text = turn.get("text_input", turn.get("text"))
    request = {"messages": body.get("messages")} if text is None else {"prompt": text}  # type: ignore[union-attr]  # a dict by now
    if turn.get("texts") is not None:
        request = {"input": turn["texts"]}
    has_tokens = turn.get("input_length") is not None
    return {
        "input_tokens": count_of(turn, "input_length", line) if has_tokens else None,
        "input_chars": None if has_tokens else input_chars(request),
        "output_tokens": count_of(turn, "output_length", line)
        if turn.get("output_length") is not None
        else None,
        "prefix_blocks": turn.get("hash_ids"),
    }
