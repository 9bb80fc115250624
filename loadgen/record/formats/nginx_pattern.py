"""nginx's `log_format` string -> a regular expression over bytes that matches each of its lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from loadgen.errors import UsageError
from loadgen.record.line_cells import WHOLE_NUMBER, CellPattern, cell_pattern

# Variables that a recording reads, and the text each must have for its line to be well-formed.
_READ = {
    "msec": r"\d{9,11}\.\d{1,9}",
    "request_time": r"\d{1,8}\.\d{1,9}",
    "time_local": r"\d\d/[A-Z][a-z][a-z]/\d{4}:\d\d:\d\d:\d\d [+-]\d{4}",
    "time_iso8601": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[+-]\d\d:\d\d|Z)",
    "status": r"\d{1,3}",
    "request_length": WHOLE_NUMBER,
    "content_length": WHOLE_NUMBER,
    "bytes_sent": WHOLE_NUMBER,
    "body_bytes_sent": WHOLE_NUMBER,
    # Not variables of nginx: what other servers' formats are translated to.
    "start_time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)",
    "duration_us": r"\d{1,14}",
    "duration_ms": r"\d{1,11}",
    "duration_s": r"\d{1,8}",
    "request": None,
    "request_method": None,
    "request_uri": None,
    "uri": None,
}
# Not read where the better one is there: each value taken costs time.
_NEEDLESS_BESIDE = {
    "time_local": "msec",
    "time_iso8601": "msec",
    "content_length": "request_length",
    "body_bytes_sent": "bytes_sent",
    "request_method": "request",
    "request_uri": "request",
    "uri": "request",
}
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")

_REQUEST_LINE = re.compile(r'"\$request_method \$(?:request_)?uri(?: \$server_protocol)?"')


@dataclass(frozen=True, slots=True)
class NginxPattern:
    """One kind of line: `cells` splits most lines of a block at once, `regex` reads any.

    `regex.findall` gives a tuple for each line, the groups in the order of `names`.

    A line of another kind gives a tuple of empty values, so that positions are line numbers.
    """

    regex: re.Pattern[bytes]
    names: tuple[str, ...]
    cells: CellPattern | None

    def has(self, name: str) -> bool:
        """Whether lines carry this variable."""
        return name in self.names


def compile_log_format(log_format: str, more: Mapping[str, str] = MappingProxyType({})) -> NginxPattern:
    """The pattern of a `log_format` string, with or without its name, quotes and semicolon.

    more: further variables to read, with the regular expression of each one's values.
    Raises UsageError if it holds no variable.
    """
    # Quoted, the three are what $request is.
    text = _REQUEST_LINE.sub('"$request"', _bare(log_format))
    pieces = _VARIABLE.split(text)
    if len(pieces) == 1:
        raise UsageError(
            f"--log-format holds no $variable: {log_format[:60]!r}",
            hint="copy the string of log_format (nginx) or LogFormat (Apache)",
        )
    read = {**_READ, **more}
    expression = re.escape(pieces[0].encode())
    given = {pieces[index] or pieces[index + 1] for index in range(1, len(pieces), 3)}
    needless = {worse for worse, better in _NEEDLESS_BESIDE.items() if better in given}
    names: list[str] = []
    for index in range(1, len(pieces), 3):
        name = pieces[index] or pieces[index + 1]
        before, after = pieces[index - 1], pieces[index + 2]
        if name in read and name not in names and name not in needless:
            names.append(name)
            check = read[name]
            expression += b"(" + (check.encode() if check else _free(name, before, after)) + b")"
        else:
            expression += b"(?:" + _free(name, before, after) + b")"
        expression += re.escape(after.encode())
    texts = [pieces[index] for index in range(0, len(pieces), 3)]
    variables = [pieces[index] or pieces[index + 1] for index in range(1, len(pieces), 3)]
    return NginxPattern(
        re.compile(rb"^(?:" + expression + rb"\r?$|.*$)", re.MULTILINE),
        tuple(names),
        cell_pattern(texts, variables, {name: read[name] for name in names}),
    )


def _free(name: str, before: str, after: str) -> bytes:
    """Any value of a variable: up to the text behind it, escapes included."""
    if before.endswith('"') and after.startswith('"'):
        # Quotes and backslashes of the value are escaped, as \x22 or as \".
        return rb'[^"\\\n]*(?:\\.[^"\\\n]*)*'
    if not after:
        return rb"[^\n]*"
    if name.startswith("upstream_"):
        # Lists such as "0.010, 1.200 : 0.3" hold the very space that ends other values.
        return rb"[^ \n]*(?:(?:,| :) [^ \n]*)*" if after[0] == " " else rb"[^\n]*?"
    return rb"[^" + re.escape(after[0].encode()) + rb"\n]*"


def _bare(log_format: str) -> str:
    """The format itself, from a whole directive or from its pieces in quotes."""
    text = log_format.strip().rstrip(";").strip()
    if text.startswith("log_format"):
        text = text.removeprefix("log_format").strip()
        text = (
            text.partition(" ")[2].strip().removeprefix("escape=default").removeprefix("escape=json").strip()
        )
    if len(text) > 1 and text[0] == text[-1] == "'":
        text = "".join(re.findall(r"'([^']*)'", text))
    return text
