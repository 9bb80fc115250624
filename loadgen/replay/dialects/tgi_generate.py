"""Text Generation Inference: POST /generate_stream, or /generate for a whole answer.

An event a token; the last one holds the generated text and, as asked, details with the counts.
"""

from __future__ import annotations

from typing import Any

import orjson

from loadgen.replay.dialects.dialect import PLAIN, Ask, JsonDialect, Part, Told
from loadgen.replay.dialects.failure import document_of, whole_document_of


class TgiGenerate(JsonDialect):
    """A bare prompt; the server knows one model and needs no name, and stops where its model does."""

    name = "tgi"
    needs_model = False
    can_force_length = False

    def path(self, _model: str | None, *, stream: bool) -> str:
        return "/generate_stream" if stream else "/generate"

    def body(self, ask: Ask) -> bytes:
        parameters: dict[str, Any] = {"details": True, "do_sample": False}
        if ask.output_tokens is not None:
            parameters["max_new_tokens"] = ask.output_tokens
        return orjson.dumps({"inputs": ask.prompt, "parameters": parameters})

    def reader(self) -> _TgiReader:
        return _READER


class _TgiReader:
    """Without memory."""

    __slots__ = ()

    texts: tuple[bytes, ...] = ()

    def event(self, name: bytes, data: bytes) -> Told:
        document = document_of(name, data)
        if isinstance(document, Told):
            return document
        token = document.get("token") or {}
        # The token that ends the text is special: counted by the server, seen by nobody.
        part = Part.ANSWER if token.get("text") and not token.get("special") else Part.NOTHING
        if document.get("generated_text") is None and not document.get("details"):
            return PLAIN[part]
        return _end_of(document, part)

    def whole(self, body: bytes) -> Told:
        document = whole_document_of(body)
        if isinstance(document, Told):
            return document
        return _end_of(document, Part.ANSWER if document.get("generated_text") else Part.NOTHING)


def _end_of(document: dict[str, Any], part: Part) -> Told:
    details = document.get("details") or {}
    return Told(
        part,
        finish_reason=str(details.get("finish_reason") or "unknown"),
        is_last=True,
        prompt_tokens=details.get("input_length"),
        output_tokens=details.get("generated_tokens"),
    )


_READER = _TgiReader()
