"""What the OpenAI dialects ask in the same words: model, length, streaming, usage."""

from __future__ import annotations

from typing import Any

import orjson

from loadgen.replay.dialects.dialect import Ask


def request_body(content: dict[str, Any], ask: Ask) -> bytes:
    """JSON of one request. Temperature 0, so that a repeated run asks for the same answer."""
    body: dict[str, Any] = {"model": ask.model, **content, "temperature": 0}
    if ask.output_tokens is not None:
        body["max_tokens"] = ask.output_tokens
        if ask.force_length:
            body["min_tokens"] = ask.output_tokens
            body["ignore_eos"] = True
    if ask.stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return orjson.dumps(body)
