"""What a kind of endpoint is asked and how its answers are read; one file a dialect."""

from __future__ import annotations

from loadgen.errors import UsageError
from loadgen.replay.dialects.dialect import Dialect
from loadgen.replay.dialects.openai_chat import OpenAiChat
from loadgen.replay.dialects.openai_completions import OpenAiCompletions


def dialect_named(name: str) -> Dialect:
    """The dialect of `--endpoint-type`. Raises UsageError for a name nobody knows."""
    known: dict[str, Dialect] = {"chat": OpenAiChat(), "completions": OpenAiCompletions()}
    if name not in known:
        raise UsageError(f"--endpoint-type is {name!r}", hint=f"give one of: {', '.join(known)}")
    return known[name]
