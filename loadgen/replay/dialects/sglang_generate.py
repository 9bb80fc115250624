"""SGLang's own endpoint: POST /generate.

Each event holds the whole text so far, or only what is new (--incremental-streaming-output), and in meta_info
the tokens so far: those tell which events carry a token, whichever it is.
"""

from __future__ import annotations

from typing import Any

import orjson

from loadgen.replay.dialects.dialect import PLAIN, Ask, JsonDialect, Part, Told
from loadgen.replay.dialects.failure import document_of, message_of, whole_document_of


class SglangGenerate(JsonDialect):
    """A bare prompt; the server knows one model and needs no name."""

    name = "sglang"
    needs_model = False

    def path(self, _model: str | None, *, stream: bool) -> str:
        return "/generate"

    def body(self, ask: Ask) -> bytes:
        sampling: dict[str, Any] = {"temperature": 0}
        if ask.output_tokens is not None:
            sampling["max_new_tokens"] = ask.output_tokens
            if ask.force_length:
                sampling["min_new_tokens"] = ask.output_tokens
                sampling["ignore_eos"] = True
        return orjson.dumps({"text": ask.prompt, "sampling_params": sampling, "stream": ask.stream})

    def reader(self) -> _SglangReader:
        return _SglangReader()


class _SglangReader:
    """Remembers how much the last event told."""

    __slots__ = ("_text", "_tokens")

    texts: tuple[bytes, ...] = ()

    def __init__(self) -> None:
        self._tokens = 0
        self._text = ""

    def event(self, name: bytes, data: bytes) -> Told:
        document = document_of(name, data)
        return document if isinstance(document, Told) else self._read(document)

    def whole(self, body: bytes) -> Told:
        document = whole_document_of(body)
        return document if isinstance(document, Told) else self._read(document)

    def _read(self, document: dict[str, Any]) -> Told:
        facts = document.get("meta_info") or {}
        text, tokens = document.get("text") or "", facts.get("completion_tokens")
        if isinstance(tokens, int):
            is_token, self._tokens = tokens > self._tokens, tokens
        else:
            is_token, self._text = bool(text) and text != self._text, text
        part = Part.ANSWER if is_token else Part.NOTHING
        finish = facts.get("finish_reason")
        if not facts:
            return PLAIN[part]
        kind = finish.get("type") if isinstance(finish, dict) else finish
        if kind == "abort":
            return Told(part, error=message_of(finish))
        return Told(
            part,
            finish_reason=str(kind) if kind else None,
            prompt_tokens=facts.get("prompt_tokens"),
            output_tokens=tokens,
        )
