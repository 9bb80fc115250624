"""Generic: any HTTP service, asked and read as a template says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from loadgen.record.json_path import JsonPath
from loadgen.replay.dialects.dialect import (
    PLAIN,
    TOLD_ANSWER,
    TOLD_NOTHING,
    Ask,
    Framing,
    Part,
    Told,
)
from loadgen.replay.dialects.failure import message_of, plain_text
from loadgen.replay.dialects.template import Template, filled, filled_text


class Generic:
    """The service that `template` describes."""

    name = "generic"
    can_force_length = False

    def __init__(self, template: Template) -> None:
        self._template = template
        self.framing = template.framing
        self.needs_model = template.uses("model")
        self.has_end_mark = bool(template.finish_reason or template.end or template.end_data)
        self.method = template.method
        self.content_type = template.content_type
        self.headers = template.headers
        self.fixed_stream: bool | None = None
        if template.framing is Framing.WHOLE:
            self.fixed_stream = False
        elif not template.uses("stream"):
            self.fixed_stream = True  # the request cannot say so: the service has but one way

    def path(self, model: str | None, *, stream: bool) -> str:
        values = {"model": model, "stream": stream, "prompt": None, "max_tokens": None}
        return filled_text(self._template.path, values)

    def body(self, ask: Ask) -> bytes:
        pieces = self._template.body if ask.output_tokens is not None else self._template.body_without_limit
        values = {
            "prompt": ask.prompt,
            "max_tokens": ask.output_tokens,
            "model": ask.model,
            "stream": ask.stream,
        }
        return filled(pieces, values)

    def reader(self) -> _TemplateReader:
        return _TemplateReader(self._template)


class _TemplateReader:
    """Remembers how long the text was, for services that repeat it."""

    __slots__ = ("_end_data", "_is_plain", "_length", "_paths", "_template")

    texts: tuple[bytes, ...] = ()

    def __init__(self, template: Template) -> None:
        self._template = template
        self._length = 0
        self._end_data = None if template.end_data is None else template.end_data.encode()
        # Nothing to look for: every event, whatever it is, is a piece of the answer.
        self._is_plain = not (
            template.text
            or template.reasoning
            or template.finish_reason
            or template.end
            or template.output_tokens
            or template.prompt_tokens
        )

    def event(self, name: bytes, data: bytes) -> Told:
        if data == self._end_data:
            return Told(is_last=True)
        if name == b"error":
            return Told(error=self._failure(data))
        if self._is_plain:
            return self._plain(data)
        try:
            document = orjson.loads(data)
        except orjson.JSONDecodeError:
            return Told(error=f"event is no JSON: {data[:80]!r}")
        return self._read(document)

    def whole(self, body: bytes) -> Told:
        return self._plain(body) if self._is_plain else self._read(orjson.loads(body))

    def _plain(self, data: bytes) -> Told:
        """A body of any kind; a JSON object that holds an error is still one."""
        if data[:1] == b"{":
            try:
                failure = _first(self._template.error, orjson.loads(data))
            except orjson.JSONDecodeError:
                failure = None
            if failure:
                return Told(error=message_of(failure))
        return TOLD_ANSWER if data else TOLD_NOTHING

    def _read(self, document: Any) -> Told:
        template = self._template
        failure = _first(template.error, document)
        if failure:
            return Told(error=message_of(failure))
        part = Part.NOTHING
        text: Any = _first(template.text, document) if template.text else True
        if template.cumulative:
            length = len(text or "") if template.text else 0
            if length > self._length:
                part = Part.ANSWER
            self._length = length
        elif text:
            part = Part.ANSWER
        if part is Part.NOTHING and _first(template.reasoning, document):
            part = Part.REASONING
        finish = _first(template.finish_reason, document)
        is_last = bool(_first(template.end, document))
        prompt, output = _first(template.prompt_tokens, document), _first(template.output_tokens, document)
        if not finish and not is_last and prompt is None and output is None:
            return PLAIN[part]
        return Told(
            part,
            finish_reason=str(finish) if finish else None,
            is_last=is_last,
            prompt_tokens=prompt,
            output_tokens=output,
        )

    def _failure(self, data: bytes) -> str:
        try:
            document = orjson.loads(data)
        except orjson.JSONDecodeError:
            return plain_text(data) or "error event"
        return message_of(_first(self._template.error, document) or document)


def _first(paths: Sequence[str], document: Any) -> Any:
    """The value at the first path that is found; None where none is."""
    for path in paths:
        value = JsonPath(path)(document)
        if value is not None:
            return value
    return None
