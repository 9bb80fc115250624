"""How long the texts of requests and answers are, in the shapes that OpenAI's API and its kin give them.

Lengths are in code points of the texts alone: roles, definitions of tools and pictures do not count. None
where there is no such text at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Document = Mapping[str, Any]


def input_chars(request: Document) -> int | None:
    """Of messages, a prompt, or an input with its instructions."""
    return _total(
        _texts(request[key])
        for key in ("system", "instructions", "messages", "prompt", "input")
        if request.get(key) is not None and not _is_token_ids(request[key])
    )


def input_ids(request: Document) -> int | None:
    """How many token ids stand for the prompt, where it is one of ids."""
    prompt = request.get("prompt")
    return len(prompt) if isinstance(prompt, list) and _is_token_ids(prompt) else None


def output_chars(response: Document | Sequence[Any]) -> int | None:
    """Of all choices, with reasoning and calls of tools; of an answer, or of the chunks of a streamed one."""
    return _total(
        _texts(part)
        for document in documents(response)
        for key in ("choices", "output", "content")
        if (part := document.get(key)) is not None
    )


def usage_tokens(response: Document | Sequence[Any], side: str) -> object:
    """The count of tokens that the answer tells; side: input or output."""
    older = {"input": "prompt_tokens", "output": "completion_tokens"}[side]
    for document in reversed(documents(response)):
        usage = document.get("usage")
        if isinstance(usage, dict):
            return usage.get(older, usage.get(f"{side}_tokens"))
    return None


def documents(response: Document | Sequence[Any]) -> list[Document]:
    """The answer as one document, or its chunks."""
    if isinstance(response, Mapping):
        return [response]
    return [chunk for chunk in response if isinstance(chunk, Mapping)]


# Keys of objects that hold text, or what holds it.
_HOLDERS = ("content", "text", "message", "delta", "reasoning_content", "refusal", "tool_calls", "function")
_DEEPEST = 20


def _texts(value: Any, depth: int = 0) -> Iterator[int]:
    """The lengths of the texts in a value: a text, an object, or a list of them."""
    if isinstance(value, str):
        yield len(value)
    elif depth == _DEEPEST:
        return
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, depth + 1)
    elif isinstance(value, dict):
        yield 0
        for key in _HOLDERS:
            if key in value:
                yield from _texts(value[key], depth + 1)
        if isinstance(value.get("arguments"), str):
            yield len(value["arguments"])


def _total(parts: Iterator[Iterator[int]]) -> int | None:
    lengths = [length for part in parts for length in part]
    return sum(lengths) if lengths else None


def _is_token_ids(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(type(one) is int for one in value)
