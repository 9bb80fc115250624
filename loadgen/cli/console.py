"""Where output goes: results to standard output, progress and notes to standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

from loadgen.errors import LoadgenError


def tolerate_narrow_encodings() -> None:
    """Let a character that the stream's code page lacks become `?` instead of a crash."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def out() -> Console:
    """Results. No colour, no escape bytes when piped or under NO_COLOR; ASCII boxes on a narrow code page."""
    return Console(file=sys.stdout, highlight=False, soft_wrap=False, emoji=False)


def err() -> Console:
    """Progress, notes and errors."""
    return Console(file=sys.stderr, highlight=False, soft_wrap=True, emoji=False)


def note(message: str) -> None:
    """One line on standard error."""
    err().print(Text(message))


def print_json(document: Any) -> None:
    """Strict JSON on standard output: no NaN, no Infinity."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=True) + "\n")


def print_error(error: LoadgenError) -> None:
    """The error's line, and its hint on a second one."""
    console = err()
    console.print(Text.assemble(("error: ", "bold red"), error.message))
    if error.hint:
        console.print(Text.assemble(("hint:  ", "bold"), error.hint))
