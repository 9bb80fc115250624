"""vLLM's plain server (vllm.entrypoints.api_server): POST /generate.

It streams a JSON document a line (up to version 0.5 ended by NUL), each with the whole text so far, prompt
included; it counts no tokens and has no end mark.
"""

from __future__ import annotations

from typing import Any

import orjson

from loadgen.replay.dialects.dialect import TOLD_ANSWER, TOLD_NOTHING, Ask, Framing, JsonDialect, Told
from loadgen.replay.dialects.failure import document_of, whole_document_of


class VllmGenerate(JsonDialect):
    """A bare prompt; the server knows one model and needs no name."""

    name = "vllm"
    framing = Framing.LINES
    needs_model = False
    has_end_mark = False

    def path(self, _model: str | None, *, stream: bool) -> str:
        return "/generate"

    def body(self, ask: Ask) -> bytes:
        body: dict[str, Any] = {"prompt": ask.prompt, "temperature": 0, "stream": ask.stream}
        if ask.output_tokens is not None:
            body["max_tokens"] = ask.output_tokens
            if ask.force_length:
                body["min_tokens"] = ask.output_tokens
                body["ignore_eos"] = True
        return orjson.dumps(body)

    def reader(self) -> _GrowingText:
        return _GrowingText()


class _GrowingText:
    """A text that grew is a token event."""

    __slots__ = ("_length",)

    texts: tuple[bytes, ...] = ()

    def __init__(self) -> None:
        self._length = 0

    def event(self, name: bytes, data: bytes) -> Told:
        document = document_of(name, data)
        if isinstance(document, Told):
            return document
        length = len(document["text"][0])
        has_grown, self._length = length > self._length, length
        return TOLD_ANSWER if has_grown else TOLD_NOTHING

    def whole(self, body: bytes) -> Told:
        document = whole_document_of(body)
        if isinstance(document, Told):
            return document
        return TOLD_ANSWER if document["text"][0] else TOLD_NOTHING
