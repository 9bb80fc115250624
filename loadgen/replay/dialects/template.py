"""Template: a request and the places in its answer, for an HTTP service of any form (--endpoint-type generic)."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from loadgen.errors import UsageError
from loadgen.replay.dialects.dialect import Framing

_TOKEN_CHARS = re.compile(r"^[A-Z][A-Z-]*$")
_PLACEHOLDER = re.compile(r"\{(prompt|max_tokens|model|stream)\}")
_BASE64 = re.compile(r"\{base64:([^{}]+)\}")
_REQUEST_KEYS = ("path", "method", "content_type", "headers", "body", "text", "file")
_ANSWER_KEYS = (
    "framing", "text", "reasoning", "cumulative", "finish_reason", "end", "end_data", "error", "prompt_tokens",
    "output_tokens",
)  # fmt: skip
# What stands for a placeholder while the body is laid out as JSON, as a value of its own and within a text.
_VALUE, _WITHIN = "loadgen-value-{}-", "loadgen-within-{}-"
_MARK = re.compile(rb'"loadgen-value-(\w+)-"|loadgen-within-(\w+)-')

Pieces = tuple[bytes | tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class Template:
    """What to ask and where to look, checked.

    body, body_without_limit: pieces of the request's body, bytes or (placeholder, is a JSON value of its own);
    the second one is for requests whose answer has no limit. Paths are dotted, the first that is found counts.
    text: of an event or a whole answer; none: whatever comes is the answer, be it an image.
    cumulative: each event holds the text so far. end: a path that is true in the last event; end_data: its
    whole data.
    """

    path: str
    body: Pieces
    body_without_limit: Pieces
    method: str = "POST"
    content_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
    framing: Framing = Framing.WHOLE
    text: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    cumulative: bool = False
    finish_reason: tuple[str, ...] = ()
    end: tuple[str, ...] = ()
    end_data: str | None = None
    error: tuple[str, ...] = ("error",)
    prompt_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()

    def uses(self, placeholder: str) -> bool:
        """Whether `{placeholder}` stands in the path, the headers or the body."""
        texts = [self.path, *(value for _, value in self.headers)]
        return any(f"{{{placeholder}}}" in text for text in texts) or any(
            piece[0] == placeholder for piece in self.body if isinstance(piece, tuple)
        )


def parse_template(document: Mapping[str, Any], where: str, read_file: Callable[[str], bytes]) -> Template:
    """A template from its file's content. where: the file, for messages. read_file: bytes of a file it names.

    Raises UsageError for what is no template, naming the key.
    """
    _refuse_unknown(document, ("request", "answer"), where, "")
    request, answer = document.get("request"), document.get("answer", {})
    if not isinstance(request, Mapping) or not isinstance(answer, Mapping):
        raise UsageError(f"{where}: has no [request]", hint="see docs/replay.md for a template")
    _refuse_unknown(request, _REQUEST_KEYS, where, "request.")
    _refuse_unknown(answer, _ANSWER_KEYS, where, "answer.")
    path = request.get("path")
    if not isinstance(path, str) or not path.startswith("/") or not path.isprintable() or " " in path:
        raise UsageError(
            f"{where}: request.path is {path!r}", hint='give the path on the server, "/generate"'
        )
    kinds = [kind for kind in ("body", "text", "file") if kind in request]
    if len(kinds) != 1:
        raise UsageError(f"{where}: request has {len(kinds)} of body, text and file", hint="give one of them")
    kind = kinds[0]
    content = request[kind]
    if kind == "body":
        body, unlimited = _json_pieces(content, read_file), _json_pieces(_without_limit(content), read_file)
    elif kind == "text":
        body = unlimited = _text_pieces(_text(request, "text", where, "request."))
    else:
        body = unlimited = (read_file(_text(request, "file", where, "request.")),)
    method = str(request.get("method", "POST"))
    if not _TOKEN_CHARS.match(method):
        raise UsageError(f"{where}: request.method is {method!r}", hint="give POST or PUT")
    default_type = {"body": "application/json", "text": "text/plain", "file": "application/octet-stream"}[
        kind
    ]
    framing = str(answer.get("framing", "whole"))
    if framing not in [known.value for known in Framing]:
        raise UsageError(f"{where}: answer.framing is {framing!r}", hint="give events, lines or whole")
    return Template(
        path=path,
        body=body,
        body_without_limit=unlimited,
        method=method,
        content_type=str(request.get("content_type", default_type)),
        headers=_headers(request.get("headers", {}), where),
        framing=Framing(framing),
        text=_paths(answer, "text", where),
        reasoning=_paths(answer, "reasoning", where),
        cumulative=answer.get("cumulative", False) is True,
        finish_reason=_paths(answer, "finish_reason", where),
        end=_paths(answer, "end", where),
        end_data=None if "end_data" not in answer else _text(answer, "end_data", where, "answer."),
        error=_paths(answer, "error", where) or ("error",),
        prompt_tokens=_paths(answer, "prompt_tokens", where),
        output_tokens=_paths(answer, "output_tokens", where),
    )


def filled(pieces: Pieces, values: Mapping[str, Any]) -> bytes:
    """The body with its placeholders' values: as JSON where one stands alone, as text within a text."""
    return b"".join(
        piece if isinstance(piece, bytes) else _rendered(values[piece[0]], alone=piece[1]) for piece in pieces
    )


def filled_text(text: str, values: Mapping[str, Any]) -> str:
    """A path or header with its placeholders' values."""
    return _PLACEHOLDER.sub(lambda found: _rendered(values[found[1]], alone=False).decode(), text)


def _rendered(value: Any, *, alone: bool) -> bytes:
    if alone:
        return orjson.dumps(value)
    if value is None:
        return b""
    return orjson.dumps(value).removeprefix(b'"').removesuffix(b'"')


def _json_pieces(content: Any, read_file: Callable[[str], bytes]) -> Pieces:
    """JSON of `content`, cut at its placeholders."""
    layout = orjson.dumps(_marked(content, read_file))
    pieces: list[bytes | tuple[str, bool]] = []
    start = 0
    for mark in _MARK.finditer(layout):
        pieces.append(layout[start : mark.start()])
        alone, within = mark.groups()
        pieces.append(((alone or within).decode(), alone is not None))
        start = mark.end()
    return (*pieces, layout[start:])


def _text_pieces(text: str) -> Pieces:
    pieces: list[bytes | tuple[str, bool]] = []
    for position, piece in enumerate(_PLACEHOLDER.split(text)):
        pieces.append((piece, False) if position % 2 else piece.encode())
    return tuple(pieces)


def _marked(content: Any, read_file: Callable[[str], bytes]) -> Any:
    if isinstance(content, Mapping):
        return {key: _marked(value, read_file) for key, value in content.items()}
    if isinstance(content, list):
        return [_marked(value, read_file) for value in content]
    if not isinstance(content, str):
        return content
    if whole := _PLACEHOLDER.fullmatch(content):
        return _VALUE.format(whole[1])
    marked = _PLACEHOLDER.sub(lambda found: _WITHIN.format(found[1]), content)
    return _BASE64.sub(lambda found: base64.b64encode(read_file(found[1])).decode(), marked)


def _without_limit(content: Any) -> Any:
    """The same without the keys whose value is {max_tokens}: no limit is not a limit of null."""
    if isinstance(content, Mapping):
        return {key: _without_limit(value) for key, value in content.items() if value != "{max_tokens}"}
    if isinstance(content, list):
        return [_without_limit(value) for value in content if value != "{max_tokens}"]
    return content


def _headers(given: Any, where: str) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, Mapping) or not all(isinstance(value, str) for value in given.values()):
        raise UsageError(f"{where}: request.headers is no table of texts")
    for name, value in given.items():
        if not re.match(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", name) or not value.isprintable():
            raise UsageError(f"{where}: request.headers.{name} cannot be sent")
    return tuple(given.items())


def _paths(answer: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    given = answer.get(key, [])
    paths = [given] if isinstance(given, str) else given
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        raise UsageError(
            f"{where}: answer.{key} is {given!r}",
            hint='give a path such as "choices.0.text", or a list of them',
        )
    return tuple(paths)


def _text(table: Mapping[str, Any], key: str, where: str, before: str) -> str:
    if not isinstance(table[key], str):
        raise UsageError(f"{where}: {before}{key} is no text")
    return str(table[key])


def _refuse_unknown(table: Mapping[str, Any], known: Sequence[str], where: str, before: str) -> None:
    for key in table:
        if key not in known:
            raise UsageError(
                f"{where}: {before}{key} is no key of a template", hint=f"known are: {', '.join(known)}"
            )
