"""OpenAI chat completions: POST /v1/chat/completions."""

from __future__ import annotations

from typing import Any

from loadgen.replay.dialects.dialect import Ask, JsonDialect, Part
from loadgen.replay.dialects.openai_body import request_body
from loadgen.replay.dialects.openai_choices import ChoicesReader


class OpenAiChat(JsonDialect):
    """One user message a request; reasoning and tool calls count as tokens."""

    name = "chat"

    def path(self, _model: str | None, *, stream: bool) -> str:
        return "/v1/chat/completions"

    def body(self, ask: Ask) -> bytes:
        return request_body({"messages": [{"role": "user", "content": ask.prompt}]}, ask)

    def reader(self) -> ChoicesReader:
        return _READER


def _part(choice: dict[str, Any]) -> Part:
    delta = choice.get("delta") or choice.get("message")
    if not delta:
        return Part.NOTHING
    if delta.get("content") or delta.get("tool_calls") or delta.get("function_call") or delta.get("refusal"):
        return Part.ANSWER
    # Two names are in use: DeepSeek and vLLM before 0.12 say reasoning_content, others say reasoning.
    if delta.get("reasoning_content") or delta.get("reasoning"):
        return Part.REASONING
    return Part.NOTHING


_READER = ChoicesReader(_part, (b"content", b"reasoning_content", b"reasoning"))
