"""Answer: the OpenAI response of one request, as JSON or as pre-formatted stream events."""

from __future__ import annotations

from typing import Any

import orjson

from loadgen_target.openai import Kind

DONE = b"data: [DONE]\n\n"


class Answer:
    """Formats what goes to the client. Everything of a chunk but its text is made once.

    The role rides on the first token's chunk, and finish_reason on the last one's: an extra chunk without text
    would be taken for a token by clients that count chunks.
    """

    def __init__(self, kind: Kind, answer_id: str, model: str, created_s: int) -> None:
        self._kind = kind
        chunk_object = "chat.completion.chunk" if kind == "chat" else "text_completion"
        self._common = {"id": answer_id, "object": chunk_object, "created": created_s, "model": model}
        start = b"data: " + orjson.dumps(self._common)[:-1] + b',"choices":[{"index":0,'
        if kind == "chat":
            self._first = start + b'"delta":{"role":"assistant","content":'
            self._later = start + b'"delta":{"content":'
            self._middle = b'},"logprobs":null,"finish_reason":'
        else:
            self._first = self._later = start + b'"text":'
            self._middle = b',"logprobs":null,"finish_reason":'
        self._is_first = True

    def chunk(self, text: str, finish_reason: str | None) -> bytes:
        """The event of one token."""
        head = self._first if self._is_first else self._later
        self._is_first = False
        reason = b"null" if finish_reason is None else orjson.dumps(finish_reason)
        return head + orjson.dumps(text) + self._middle + reason + b"}]}\n\n"

    def usage_chunk(self, usage: dict[str, int], metrics: dict[str, Any]) -> bytes:
        """The event after the last token: no choices, the counts, and the server's own timing."""
        return _event({**self._common, "choices": [], "usage": usage, "metrics": metrics})

    def whole(
        self, text: str, finish_reason: str | None, usage: dict[str, int], metrics: dict[str, Any]
    ) -> bytes:
        """The body of an answer that is not streamed."""
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish_reason}
        if self._kind == "chat":
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        kind = "chat.completion" if self._kind == "chat" else "text_completion"
        return orjson.dumps(
            {**self._common, "object": kind, "choices": [choice], "usage": usage, "metrics": metrics}
        )


def usage_of(prompt_tokens: int, output_tokens: int) -> dict[str, int]:
    """The `usage` object."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": prompt_tokens + output_tokens,
    }


def error_body(status: int, message: str, *, kind: str, param: str | None = None) -> dict[str, Any]:
    """OpenAI's error object."""
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}


def error_event(status: int, message: str, *, kind: str) -> bytes:
    """An error after the first token, when the status code has gone already."""
    return _event(error_body(status, message, kind=kind))


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
