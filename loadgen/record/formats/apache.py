"""Apache access logs: %t is the moment the request was received, so it is the arrival as it stands.

Source: mod_log_config of httpd. The line is written at the end, in the order of completion; %t has a
resolution of 1 s. It looks like nginx's `combined`, whose stamp is the completion: the two cannot be told
apart by their look, so the format has to be named. %D is the duration in us, %T in s, %I and %O bytes with headers
(mod_logio), %b and %B bytes of the body.

Without --log-format the lines are taken as `combined`, with ` %I %D`, ` %I %O %D` or nothing behind
it, or as `common`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from loadgen.errors import RecordError, UsageError
from loadgen.record.access_lines import pattern_of, read_access_lines
from loadgen.record.decimal_columns import counts, nanoseconds
from loadgen.record.findings import Findings
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.formats.nginx_pattern import NginxPattern, compile_log_format
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.request_filter import RequestFilter
from loadgen.record.settings import RecordSettings

_COMMON = '%h %l %u %t "%r" %>s %b'
_COMBINED = _COMMON + ' "%{Referer}i" "%{User-Agent}i"'
# In the order in which they are tried; the numbers behind the agent tell them apart.
_DEFAULTS = (
    '%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i" %I %D',
    _COMBINED + " %I %O %D",
    _COMBINED,
    _COMMON,
)
_DIRECTIVE = re.compile(r"%(?:[<>]|!?\d{3}(?:,\d{3})*)*(?:\{([^}]*)\})?(\^?[A-Za-z]{1,2}|%)")
_VARIABLES = {
    "r": "request",
    "s": "status",
    "I": "request_length",
    "O": "bytes_sent",
    "b": "body_bytes_sent",
    "B": "body_bytes_sent",
    "D": "duration_us",
    "T": "duration_s",
    "m": "request_method",
    "U": "uri",
}
_DURATIONS = {"duration_us": 10**3, "duration_ms": 10**6, "duration_s": 10**9}
_LENGTHS = {
    "input_bytes": ("request_length",),
    "output_bytes": ("bytes_sent", "body_bytes_sent"),
    "status": ("status",),
}


class ApacheFormat:
    """Apache access log lines."""

    order_matters = False

    def __init__(self, settings: RecordSettings) -> None:
        self._filter = RequestFilter(settings.path_prefixes)
        formats = (settings.log_format,) if settings.log_format else _DEFAULTS
        self._patterns = {text: compile_log_format(_translated(text)) for text in formats}
        self._pattern: NginxPattern | None = None
        if not all(pattern.has("time_local") for pattern in self._patterns.values()):
            raise UsageError("--log-format has no %t, so arrivals cannot be had")

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        # Never guessed: nginx writes the same look with another meaning.
        return False

    def stamp_facts(self) -> StampFacts:
        return StampFacts(marks="arrival", arrival_from="%t as it stands (1 s)", resolution_ns=10**9)

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.assume(self._filter.description)
        findings.warn("%t has a resolution of 1 s: bursts within a second are lost")
        for batch in batches:
            # The first lines tell, to those who read the others in other processes, too.
            pattern = self._pattern = self._pattern or pattern_of(batch, tuple(self._patterns.values()))
            if len(self._patterns) > 1:
                text = next(text for text, one in self._patterns.items() if one == pattern)
                findings.assume(f"lines are {text} (--log-format overrides)")
            lines = read_access_lines(batch, pattern, self._filter, findings)
            values: dict[str, object] = {"endpoint": lines.endpoints}
            try:
                arrival_ns = lines.moments_ns("time_local")
                for name, unit_ns in _DURATIONS.items():
                    if pattern.has(name) and "duration_ns" not in values:
                        values["duration_ns"] = pa.array(nanoseconds(lines.values[name], unit_ns))
                for column, names in _LENGTHS.items():
                    found = next((name for name in names if pattern.has(name)), None)
                    if found is not None:
                        values[column] = counts(lines.values[found])
            except ValueError as exc:
                raise RecordError(f"{batch.source}: from line {batch.first_line} on: {exc}") from exc
            yield RequestBatch(arrival_ns, values)


def _translated(log_format: str) -> str:
    """An Apache LogFormat string in nginx's notation. Raises UsageError for a time that is no arrival."""

    def variable(found: re.Match[str]) -> str:
        argument, letter = found[1], found[2]
        if letter == "%":
            return "%"
        if letter == "t":
            if argument:
                raise UsageError(
                    f"%{{{argument}}}t in --log-format is not understood; %t is",
                    hint="log %t, or record the lines with --format csv and a pattern",
                )
            return "[$time_local]"
        if letter == "T" and argument in ("us", "ms"):
            return f"$duration_{argument}"
        return "$" + _VARIABLES.get(letter, "other") if not argument else "$other"

    return _DIRECTIVE.sub(variable, log_format.replace('\\"', '"'))
