"""Dialect: the seam between a schedule's lengths and one kind of endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol


class Part(Enum):
    """What an event, or a whole answer, carries."""

    NOTHING = 0  # a role, a usage count, an empty text: no token
    REASONING = 1
    ANSWER = 2  # text or a tool call


@dataclass(frozen=True, slots=True)
class Ask:
    """What one request asks for.

    prompt: ASCII text without quotes, backslashes or control characters.
    output_tokens: the limit on the answer's length; None leaves it to the server.
    force_length: ask the server to go on to exactly that length (ignore_eos and min_tokens).
    """

    model: str
    prompt: str
    output_tokens: int | None
    stream: bool
    force_length: bool


class Dialect(Protocol):
    """One kind of endpoint. Usage, errors and finish reasons follow the OpenAI forms for all of them."""

    name: str
    path: str

    def body(self, ask: Ask) -> bytes:
        """The request's body."""
        ...

    def part(self, choice: dict[str, Any]) -> Part:
        """What the first choice of an event or of a whole answer carries."""
        ...
