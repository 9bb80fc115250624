"""OpenAI completions: POST /v1/completions."""

from __future__ import annotations

from typing import Any

from loadgen.replay.dialects.dialect import Ask, Part
from loadgen.replay.dialects.openai_body import request_body


class OpenAiCompletions:
    """A bare prompt a request."""

    name = "completions"
    path = "/v1/completions"

    def body(self, ask: Ask) -> bytes:
        return request_body({"prompt": ask.prompt}, ask)

    def part(self, choice: dict[str, Any]) -> Part:
        return Part.ANSWER if choice.get("text") else Part.NOTHING
