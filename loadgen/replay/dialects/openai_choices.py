"""Answers with `choices` and `usage`, as OpenAI's chat and completions endpoints give them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from orjson import loads

from loadgen.replay.dialects.dialect import PLAIN, Part, Told
from loadgen.replay.dialects.failure import failure_or, whole_document_of


class ChoicesReader:
    """Reads the first choice; without memory. part: what a choice carries. texts: see Reader."""

    __slots__ = ("_part", "texts")

    def __init__(self, part: Callable[[dict[str, Any]], Part], texts: tuple[bytes, ...]) -> None:
        self._part = part
        self.texts = texts

    def event(self, name: bytes, data: bytes) -> Told:
        document = None
        try:
            # Nearly every event: text and nothing else. Each call saved here is a tenth of its cost.
            document = loads(data)
            choice = document["choices"][0]
            part = self._part(choice)
            if (
                part
                and not name
                and not choice.get("finish_reason")
                and not document.get("usage")
                and not document.get("error")
                and not document.get("metrics")
            ):
                return PLAIN[part]
        except (ValueError, AttributeError, KeyError, IndexError, TypeError):
            pass
        told = failure_or(document, name, data)
        return told if isinstance(told, Told) else self._read(told)

    def whole(self, body: bytes) -> Told:
        document = whole_document_of(body)
        return document if isinstance(document, Told) else self._read(document)

    def _read(self, document: dict[str, Any]) -> Told:
        part, finish = Part.NOTHING, None
        choices = document.get("choices")
        if choices:
            part = self._part(choices[0])
            finish = choices[0].get("finish_reason")
        usage, metrics = document.get("usage"), document.get("metrics")
        if not finish and not usage and not metrics:
            return PLAIN[part]
        counts = usage if isinstance(usage, dict) else {}
        return Told(
            part,
            finish_reason=str(finish) if finish else None,
            prompt_tokens=counts.get("prompt_tokens"),
            output_tokens=counts.get("completion_tokens"),
            metrics=metrics,
        )
