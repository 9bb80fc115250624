"""OpenAI completions: POST /v1/completions."""

from __future__ import annotations

from typing import Any

from loadgen.replay.dialects.dialect import Ask, JsonDialect, Part
from loadgen.replay.dialects.openai_body import request_body
from loadgen.replay.dialects.openai_choices import ChoicesReader


class OpenAiCompletions(JsonDialect):
    """A bare prompt a request."""

    name = "completions"

    def path(self, _model: str | None, *, stream: bool) -> str:
        return "/v1/completions"

    def body(self, ask: Ask) -> bytes:
        return request_body({"prompt": ask.prompt}, ask)

    def reader(self) -> ChoicesReader:
        return _READER


def _part(choice: dict[str, Any]) -> Part:
    return Part.ANSWER if choice.get("text") else Part.NOTHING


_READER = ChoicesReader(_part, (b"text",))
