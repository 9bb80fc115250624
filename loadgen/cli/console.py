"""Where output goes: results to standard output, progress and notes to standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment
from rich.text import Text

from loadgen.errors import LoadgenError


def tolerate_narrow_encodings() -> None:
    """Let a character that the stream's code page lacks become `?` instead of a crash."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


class _Output(Console):
    """A console whose reader may leave early (`| head`): the work goes on, and its exit code stays its own."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        _drop(self.file)


def _drop(stream: IO[str]) -> None:
    """Let what is written to `stream` from here on go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def out() -> Console:
    """Results. No colour, no escape bytes when piped or under NO_COLOR; ASCII boxes on a narrow code page."""
    console = _Output(file=sys.stdout, highlight=False, soft_wrap=False, emoji=False)
    if not console.is_terminal:
        trim(console)
    return console


def trim(console: Console) -> None:
    """Let no line of `console` end in spaces, which tables and wrapped text fill their lines up with."""
    console.push_render_hook(_Trimming())


class _Trimming(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Trimmed(renderable) for renderable in renderables]


@dataclass(frozen=True, slots=True)
class _Trimmed:
    renderable: ConsoleRenderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in Segment.split_lines(console.render(self.renderable, options)):
            yield from _without_end(line)
            yield Segment.line()


def _without_end(line: Sequence[Segment]) -> Iterator[Segment]:
    """The segments up to the last character that is no space."""
    width = len("".join(segment.text for segment in line).rstrip())
    for segment in line:
        if width > 0:
            yield segment._replace(text=segment.text[:width])
        width -= len(segment.text)


def err() -> Console:
    """Progress, notes and errors."""
    return _Output(file=sys.stderr, highlight=False, soft_wrap=True, emoji=False)


def note(message: str) -> None:
    """One line on standard error."""
    err().print(Text(message))


def print_json(document: Any) -> None:
    """Strict JSON on standard output: no NaN, no Infinity."""
    try:
        sys.stdout.write(json.dumps(document, indent=2, allow_nan=False, ensure_ascii=True) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        _drop(sys.stdout)


def print_error(error: LoadgenError) -> None:
    """The error's line, and its hint on a second one."""
    console = err()
    console.print(Text.assemble(("error: ", "bold red"), error.message))
    if error.hint:
        console.print(Text.assemble(("hint:  ", "bold"), error.hint))
