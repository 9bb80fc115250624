"""How servers tell of a failure inside an answer of status 200."""

from __future__ import annotations

from typing import Any

import orjson

from loadgen.replay.dialects.dialect import Told

# An error text longer than this tells nothing more and would swell the records.
MAX_ERROR_CHARS = 300


def document_of(name: bytes, data: bytes) -> dict[str, Any] | Told:
    """The JSON object of an event, or what it tells where it is none or tells of a failure.

    Failures are {"error": text or {"message": ...}}, {"object": "error", "message": ...}, or any event named
    `error`.
    """
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError:
        document = None
    return failure_or(document, name, data)


def failure_or(document: Any, name: bytes, data: bytes) -> dict[str, Any] | Told:
    """The same of an event whose JSON is known to be `document`; None: it is no JSON."""
    if not isinstance(document, dict):
        text = plain_text(data) if name == b"error" else f"event is no JSON object: {data[:80]!r}"
        return Told(error=text or "error event")
    failure = document.get("error")
    if failure or name == b"error" or document.get("object") == "error":
        return Told(error=message_of(failure or document))
    return document


def whole_document_of(body: bytes) -> dict[str, Any] | Told:
    """The same of a whole answer; one in a list of its own is taken out. Raises ValueError for no JSON."""
    document = orjson.loads(body)
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if not isinstance(document, dict):
        return Told(error="answer is no JSON object")
    if document.get("error"):
        return Told(error=message_of(document["error"]))
    return document


def message_of(failure: Any) -> str:
    """The words of a failure, bounded; never empty."""
    if isinstance(failure, dict):
        failure = failure.get("message") or failure.get("detail") or failure
    return str(failure)[:MAX_ERROR_CHARS] or "error without words"


def plain_text(data: bytes) -> str:
    """Bytes as one line of text, bounded."""
    return " ".join(data[: 4 * MAX_ERROR_CHARS].decode("utf-8", "replace").split())[:MAX_ERROR_CHARS]
