"""Dialect: the seam between a schedule's lengths and one kind of endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, NamedTuple, Protocol


class Part(IntEnum):
    """What an event, or a whole answer, carries."""

    NOTHING = 0  # a role, a usage count, an empty text: no token
    REASONING = 1
    ANSWER = 2  # text, a tool call, an image


class Framing(Enum):
    """How a streamed answer is cut into events."""

    EVENTS = "events"  # server-sent events
    LINES = "lines"  # a document a line; a NUL may stand for the line end
    WHOLE = "whole"  # not at all: the body is one answer


@dataclass(frozen=True, slots=True)
class Ask:
    """What one request asks for.

    model: None where the endpoint needs none and none was named.
    prompt: ASCII text without quotes, backslashes or control characters.
    output_tokens: the limit on the answer's length; None leaves it to the server.
    force_length: ask the server to go on to exactly that length.
    """

    model: str | None
    prompt: str
    output_tokens: int | None
    stream: bool
    force_length: bool


class Told(NamedTuple):  # a tuple is made in half the time, and several are made for each answer
    """What one event, or a whole answer, told; None where it said nothing of that.

    finish_reason: the server says that it has generated all. is_last: nothing of the answer follows.
    prompt_tokens, output_tokens: running totals, as the server counts; what is no count may stand here.
    metrics: the server's own account of the request.
    """

    part: Part = Part.NOTHING
    finish_reason: str | None = None
    is_last: bool = False
    error: str | None = None
    prompt_tokens: Any = None
    output_tokens: Any = None
    metrics: Any = None


# What nearly every event tells; shared, since there may be a hundred thousand a second.
TOLD_NOTHING = Told()
TOLD_REASONING = Told(Part.REASONING)
TOLD_ANSWER = Told(Part.ANSWER)
PLAIN = (TOLD_NOTHING, TOLD_REASONING, TOLD_ANSWER)  # by Part


class Reader(Protocol):
    """Reads one answer. AttributeError, KeyError, IndexError or TypeError: its form is no known server's.

    texts: names of texts in an event of which it asks nothing but whether they are empty, so that events which
    differ in such a text alone, or in an `id`, tell the same. None where what an event tells hangs on those
    before it.
    """

    @property
    def texts(self) -> tuple[bytes, ...]: ...

    def event(self, name: bytes, data: bytes) -> Told:
        """One event of a stream; name is empty where none was given."""
        ...

    def whole(self, body: bytes) -> Told:
        """An answer that came in one piece. Raises ValueError where it cannot be read at all."""
        ...


class Dialect(Protocol):
    """One kind of endpoint: what it is asked, and who reads its answers.

    framing: of a streamed answer. fixed_stream: True or False where the endpoint always or never streams.
    needs_model: no request can be made without a model's name. can_force_length: it can be asked for an exact
    length. has_end_mark: a stream tells that it is complete; where it cannot, a clean end of HTTP must do.
    method, content_type, headers: of the request.
    """

    @property
    def name(self) -> str: ...
    @property
    def framing(self) -> Framing: ...
    @property
    def fixed_stream(self) -> bool | None: ...
    @property
    def needs_model(self) -> bool: ...
    @property
    def can_force_length(self) -> bool: ...
    @property
    def has_end_mark(self) -> bool: ...
    @property
    def method(self) -> str: ...
    @property
    def content_type(self) -> str: ...
    @property
    def headers(self) -> tuple[tuple[str, str], ...]: ...

    def path(self, model: str | None, *, stream: bool) -> str:
        """Path of the endpoint, put after the target's own."""
        ...

    def body(self, ask: Ask) -> bytes:
        """The request's body."""
        ...

    def reader(self) -> Reader:
        """A reader for one answer; one without a memory may serve all of them."""
        ...


class JsonDialect:
    """What most dialects have in common: POST of JSON, server-sent events, an end that is told."""

    framing = Framing.EVENTS
    fixed_stream: bool | None = None
    needs_model = True
    can_force_length = True
    has_end_mark = True
    method = "POST"
    content_type = "application/json"
    headers: tuple[tuple[str, str], ...] = ()
