"""OpenAI responses: POST /v1/responses, whose events each name their type.

Types as in OpenAI's reference of streaming events; the stream ends with response.completed, .incomplete or
.failed, and knows no [DONE].
"""

from __future__ import annotations

from typing import Any

import orjson

from loadgen.replay.dialects.dialect import PLAIN, TOLD_ANSWER, TOLD_NOTHING, Ask, JsonDialect, Part, Told
from loadgen.replay.dialects.failure import document_of, message_of, whole_document_of

_DELTAS = {
    "response.output_text.delta": Part.ANSWER,
    "response.refusal.delta": Part.ANSWER,
    "response.function_call_arguments.delta": Part.ANSWER,
    "response.custom_tool_call_input.delta": Part.ANSWER,
    "response.mcp_call_arguments.delta": Part.ANSWER,
    "response.code_interpreter_call_code.delta": Part.ANSWER,
    "response.audio.delta": Part.ANSWER,
    "response.reasoning_text.delta": Part.REASONING,
    "response.reasoning_summary_text.delta": Part.REASONING,
    "response.reasoning.delta": Part.REASONING,  # servers from before the text had a type of its own
}
_CALLS = ("function_call", "custom_tool_call", "mcp_call")
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.cancelled")


class OpenAiResponses(JsonDialect):
    """The prompt is the input; nothing of it is stored by the server."""

    name = "responses"

    def path(self, _model: str | None, *, stream: bool) -> str:
        return "/v1/responses"

    def body(self, ask: Ask) -> bytes:
        body: dict[str, Any] = {"model": ask.model, "input": ask.prompt, "temperature": 0, "store": False}
        if ask.output_tokens is not None:
            body["max_output_tokens"] = ask.output_tokens
            if ask.force_length:
                body["min_tokens"] = ask.output_tokens
                body["ignore_eos"] = True
        if ask.stream:
            body["stream"] = True
        return orjson.dumps(body)

    def reader(self) -> _ResponsesReader:
        return _READER


class _ResponsesReader:
    """Without memory: each event tells all of itself."""

    __slots__ = ()

    texts: tuple[bytes, ...] = ()

    def event(self, name: bytes, data: bytes) -> Told:
        document = document_of(name, data)
        if isinstance(document, Told):
            return document
        kind = document.get("type")
        part = _DELTAS.get(kind) if isinstance(kind, str) else None
        if part is not None:
            return PLAIN[part] if document.get("delta") else TOLD_NOTHING
        if kind in _ENDS:
            return _end_of(document["response"])
        if kind == "error":
            return Told(error=message_of(document))
        if kind == "response.output_item.added" and document["item"].get("type") in _CALLS:
            return TOLD_ANSWER  # a call's name is generated, though its arguments may be none
        return TOLD_NOTHING

    def whole(self, body: bytes) -> Told:
        document = whole_document_of(body)
        if isinstance(document, Told):
            return document
        return _end_of(document, _part_of_output(document.get("output") or ()))


def _end_of(response: dict[str, Any], part: Part = Part.NOTHING) -> Told:
    status = response.get("status")
    usage = response.get("usage") or {}
    if response.get("error"):
        error: str | None = message_of(response["error"])
    else:
        error = f"response is {status}" if status in ("failed", "cancelled") else None
    return Told(
        part,
        finish_reason=str((response.get("incomplete_details") or {}).get("reason") or status or "completed"),
        is_last=True,
        error=error,
        prompt_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
        metrics=response.get("metrics"),
    )


def _part_of_output(output: Any) -> Part:
    part = Part.NOTHING
    for item in output:
        if item.get("type") in _CALLS or any(
            piece.get("text") or piece.get("refusal")
            for piece in item.get("content") or ()
            if item.get("type") == "message"
        ):
            return Part.ANSWER
        if item.get("type") == "reasoning" and (item.get("content") or item.get("summary")):
            part = Part.REASONING
    return part


_READER = _ResponsesReader()
