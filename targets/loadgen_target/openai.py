"""The OpenAI request bodies that are understood: chat completions and completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson

from loadgen_target.config import VOCAB_SIZE
from loadgen_target.request import Sampling

Kind = Literal["chat", "text"]

# Used where the body names no max_tokens: the API's own 16, and a bounded answer for chat, as weights from a
# seed seldom come to an end by themselves.
_DEFAULT_MAX_TOKENS: dict[Kind, int] = {"text": 16, "chat": 128}
_MAX_STOPS = 16
_UNSUPPORTED = ("tools", "functions", "echo", "suffix", "use_beam_search")


class BadRequest(Exception):
    """A body that cannot be served; becomes a 400 with this message."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param


@dataclass(frozen=True, slots=True)
class Asked:
    """What a client asks for. num_prompt_tokens: bytes of the text, or ids given; at least 1."""

    kind: Kind
    prompt: str | tuple[int, ...]
    num_prompt_tokens: int
    sampling: Sampling
    is_stream: bool
    includes_usage: bool


def parse_request(kind: Kind, body: bytes, *, max_model_len: int, default_seed: int) -> Asked:
    """The request in `body`; fields that are not known are ignored. Raises BadRequest."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadRequest(f"the body is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadRequest("the body is not a JSON object")
    _refuse_unsupported(fields)
    prompt = _messages(fields) if kind == "chat" else _prompt(fields)
    num_prompt_tokens = max(
        1, len(prompt.encode("utf-8", "replace")) if isinstance(prompt, str) else len(prompt)
    )
    named = next(
        (name for name in ("max_completion_tokens", "max_tokens") if fields.get(name) is not None), None
    )
    room = max_model_len - num_prompt_tokens
    if named is None:
        max_tokens = min(_DEFAULT_MAX_TOKENS[kind], max(room, 1))
    else:
        max_tokens = _integer(fields, named, at_least=1)
    if max_tokens > room:
        raise BadRequest(
            f"{num_prompt_tokens} prompt tokens + {max_tokens} max_tokens = {num_prompt_tokens + max_tokens}, "
            f"more than the model length of {max_model_len}",
            param=named or "prompt",
        )
    min_tokens = _integer(fields, "min_tokens", at_least=0) if fields.get("min_tokens") is not None else 0
    if min_tokens > max_tokens:
        raise BadRequest(f"min_tokens is {min_tokens}, above max_tokens {max_tokens}", param="min_tokens")
    options = fields.get("stream_options")
    return Asked(
        kind=kind,
        prompt=prompt,
        num_prompt_tokens=num_prompt_tokens,
        sampling=Sampling(
            max_tokens=max_tokens,
            min_tokens=min_tokens,
            ignore_eos=fields.get("ignore_eos") is True,
            stops=_stops(fields.get("stop")),
            temperature=_temperature(fields.get("temperature")),
            seed=_integer(fields, "seed") if fields.get("seed") is not None else default_seed,
        ),
        is_stream=fields.get("stream") is True,
        includes_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _refuse_unsupported(fields: dict[str, Any]) -> None:
    for name in ("n", "best_of"):
        if fields.get(name) not in (None, 1):
            raise BadRequest(
                f"{name} is {fields[name]!r}; this server gives one answer a request", param=name
            )
    for name in _UNSUPPORTED:
        if fields.get(name):
            raise BadRequest(f"{name} is not supported by this server", param=name)


def _messages(fields: dict[str, Any]) -> str:
    """The texts of all messages, one a line. There is no template: a prompt has the tokens its texts have."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages is not a list with at least one message", param="messages")
    texts = []
    for index, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, list):
            content = "".join(_part_text(part) for part in content)
        if content is None and isinstance(message, dict):
            content = ""
        if not isinstance(content, str):
            raise BadRequest(f"messages[{index}].content is neither text nor parts", param="messages")
        texts.append(content)
    return "\n".join(texts)


def _part_text(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) else None
    if not isinstance(text, str):
        raise BadRequest(
            "a part of a message's content is not text, which is all this server reads", param="messages"
        )
    return text


def _prompt(fields: dict[str, Any]) -> str | tuple[int, ...]:
    prompt = fields.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, list) or not prompt:
        raise BadRequest(
            "prompt is neither a text, a list of one text, nor a list of token ids", param="prompt"
        )
    if any(isinstance(item, str | list) for item in prompt):
        raise BadRequest(f"prompt has {len(prompt)} texts; this server takes one a request", param="prompt")
    for item in prompt:
        if not isinstance(item, int) or isinstance(item, bool) or not 0 <= item < VOCAB_SIZE:
            raise BadRequest(
                f"prompt has {item!r}, which is no token id of 0..{VOCAB_SIZE - 1}", param="prompt"
            )
    return tuple(prompt)


def _stops(stop: object) -> tuple[bytes, ...]:
    stops = [stop] if isinstance(stop, str) else stop if stop is not None else []
    if not isinstance(stops, list) or not all(isinstance(text, str) for text in stops):
        raise BadRequest("stop is neither a text nor a list of texts", param="stop")
    if len(stops) > _MAX_STOPS:
        raise BadRequest(f"stop has {len(stops)} texts, more than {_MAX_STOPS}", param="stop")
    return tuple(text.encode("utf-8", "replace") for text in stops if text)


def _temperature(value: object) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        raise BadRequest(f"temperature is {value!r}, not a number of 0 or more", param="temperature")
    return float(value)


def _integer(fields: dict[str, Any], name: str, *, at_least: int | None = None) -> int:
    value = fields[name]
    if not isinstance(value, int) or isinstance(value, bool) or (at_least is not None and value < at_least):
        least = "" if at_least is None else f" of {at_least} or more"
        raise BadRequest(f"{name} is {value!r}, not a whole number{least}", param=name)
    return value
