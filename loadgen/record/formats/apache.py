"""Apache access logs: %t is the moment the request was received, so it is the arrival as it stands.

Source: mod_log_config of httpd. The line is written at the end, in the order of completion. It looks like nginx's
`combined`, whose stamp is the completion: the two cannot be told apart by their look, so the format has to be
named. %D is the duration in us, %T in s, %I and %O bytes with headers (mod_logio), %b and %B bytes of the body;
times are told in apache_times.py.

Without --log-format the lines are taken as `combined`, with ` %I %D`, ` %I %O`, ` %I %O %D` or nothing behind
it, or as `common`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from loadgen.durations import format_duration
from loadgen.errors import RecordError, UsageError
from loadgen.record.access_lines import pattern_of, read_access_lines
from loadgen.record.decimal_columns import counts, nanoseconds
from loadgen.record.findings import Findings
from loadgen.record.formats.apache_times import ApacheMoment, ApacheTimes
from loadgen.record.formats.log_format import StampFacts
from loadgen.record.formats.nginx_pattern import NginxPattern, compile_log_format
from loadgen.record.line_batch import LineBatch
from loadgen.record.request_batch import RequestBatch
from loadgen.record.request_filter import RequestFilter
from loadgen.record.settings import RecordSettings
from loadgen.record.stamp_reader import StampReader

_COMMON = '%h %l %u %t "%r" %>s %b'
_COMBINED = _COMMON + ' "%{Referer}i" "%{User-Agent}i"'
_WITH_DURATION = '%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i" %I %D'
_WITH_BYTES = _COMBINED + " %I %O"
# In the order in which they are tried; the numbers behind the agent tell them apart.
_DEFAULTS = (_WITH_DURATION, _WITH_BYTES, _COMBINED + " %I %O %D", _COMBINED, _COMMON)
# With headers an answer is longer than its body by this much at most, and by an eighth of it in small chunks.
_MOST_HEADER_BYTES = 4096
_ENOUGH_LINES = 3
_HEAD_LINES = 1000
_DIRECTIVE = re.compile(r"%(?:[<>]|!?\d{3}(?:,\d{3})*)*(?:\{([^}]*)\})?(\^[A-Za-z]{2}|[A-Za-z]|%)")
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
_WITH_ARGUMENT = {
    ("us", "T"): "duration_us",
    ("ms", "T"): "duration_ms",
    ("s", "T"): "duration_s",
    ("content-length", "i"): "content_length",
}
_DURATIONS = {"duration_us": 10**3, "duration_ms": 10**6, "duration_s": 10**9}
_LENGTHS = {
    "input_bytes": ("request_length", "content_length"),
    "output_bytes": ("bytes_sent", "body_bytes_sent"),
    "status": ("status",),
}


@dataclass(frozen=True, slots=True)
class _Lines:
    """One LogFormat string, its pattern, and the moment that its times tell."""

    text: str
    pattern: NginxPattern
    moment: ApacheMoment

    @property
    def duration(self) -> str | None:
        """The finest of the durations."""
        return next((name for name in _DURATIONS if self.pattern.has(name)), None)


class ApacheFormat:
    """Apache access log lines."""

    def __init__(self, settings: RecordSettings) -> None:
        self._filter = RequestFilter(settings.path_prefixes)
        self._is_told = settings.log_format is not None
        formats = (settings.log_format,) if settings.log_format is not None else _DEFAULTS
        self._kinds = tuple(_lines_of(text) for text in formats)
        self._lines: _Lines | None = None
        self._takes_completions = settings.accept_completion_times
        moment = self._kinds[0].moment
        self._stamps = StampReader(moment.strptime or "iso", settings.zone, settings.year)
        if moment.marks == "completion" and self._kinds[0].duration is None and not self._takes_completions:
            raise UsageError(
                "--log-format has the request's end (%{end:...}t) and no duration (%D): arrivals cannot be had",
                hint="log %t, or %D; --accept-completion-times takes these lines for what they are worth",
            )

    @staticmethod
    def looks_like(head: Sequence[bytes]) -> bool:
        # Never guessed: nginx writes the same look with another meaning.
        return False

    @property
    def order_matters(self) -> bool:
        """Whether lines have to be read in their order, by one process."""
        return self._stamps.order_matters

    def stamp_facts(self) -> StampFacts:
        lines = self._lines or self._kinds[0]
        resolution_ns = lines.moment.resolution_ns
        if lines.moment.marks == "arrival":
            arrival_from = f"the time of the request as it stands ({format_duration(resolution_ns / 1e9)})"
        elif lines.duration is None:
            arrival_from = "%{end:...}t, which is the completion"
        else:
            arrival_from = "%{end:...}t - the duration"
            resolution_ns = max(resolution_ns, _DURATIONS[lines.duration])
        return StampFacts(lines.moment.marks, arrival_from, resolution_ns, self._stamps.zone_used)

    def read(self, batches: Iterable[LineBatch], findings: Findings) -> Iterator[RequestBatch]:
        findings.assume(self._filter.description)
        for batch in batches:
            # The first lines tell, to those who read the others in other processes, too.
            lines = self._lines = self._lines or self._lines_of_kind(batch)
            if not self._is_told:
                findings.assume(f"lines are {lines.text} ({_why(lines.text)}--log-format overrides)")
            yield self._read_batch(batch, lines, findings)
        self._stamps.report(findings)
        facts = self.stamp_facts()
        if facts.resolution_ns == 10**9:
            findings.warn(
                "times have a resolution of 1 s: bursts within a second are lost (%{usec}t has 1 us)"
            )
        if facts.marks == "completion" and (self._lines or self._kinds[0]).duration is None:
            findings.warn("arrivals are completion times, as accepted: bursts are smeared")

    def _lines_of_kind(self, batch: LineBatch) -> _Lines:
        pattern = pattern_of(batch, [kind.pattern for kind in self._kinds])
        lines = next(kind for kind in self._kinds if kind.pattern == pattern)
        if lines.text == _WITH_DURATION and _ends_in_bytes(batch, pattern):
            return next(kind for kind in self._kinds if kind.text == _WITH_BYTES)
        return lines

    def _read_batch(self, batch: LineBatch, kind: _Lines, findings: Findings) -> RequestBatch:
        lines = read_access_lines(batch, kind.pattern, self._filter, findings)
        values: dict[str, object] = {"endpoint": lines.endpoints}
        arrival_ns, faults = kind.moment.unix_ns(lines.values, self._stamps, batch.source)
        try:
            if kind.duration is not None:
                duration_ns = nanoseconds(lines.values[kind.duration], _DURATIONS[kind.duration])
                values["duration_ns"] = pa.array(duration_ns)
                if kind.moment.marks == "completion":
                    arrival_ns = arrival_ns - duration_ns
            for column, names in _LENGTHS.items():
                found = next((name for name in names if kind.pattern.has(name)), None)
                if found is not None:
                    values[column] = counts(lines.values[found])
        except ValueError as exc:
            raise RecordError(f"{batch.source}: from line {batch.first_line} on: {exc}") from exc
        findings.add_faults(batch, lines.numbers.tolist(), faults)
        return RequestBatch(arrival_ns, values).without(faults)


def _ends_in_bytes(batch: LineBatch, pattern: NginxPattern) -> bool:
    """Whether the last number is the bytes sent rather than a duration: it goes with the size of the answer."""
    size, last = pattern.names.index("bytes_sent"), pattern.names.index("duration_us")
    head = b"\n".join(batch.lines()[:_HEAD_LINES])
    pairs = [
        (int(found[size]), int(found[last]))
        for found in pattern.regex.findall(head)
        if found[size].isdigit() and found[last].isdigit()
    ]
    return len(pairs) >= _ENOUGH_LINES and all(
        sent <= number <= sent + sent // 8 + _MOST_HEADER_BYTES for sent, number in pairs
    )


def _why(log_format: str) -> str:
    if log_format == _WITH_DURATION:
        return "the last number is no size, since it does not go with that of the answer; "
    return "the last number goes with the size of the answer; " if log_format == _WITH_BYTES else ""


def _lines_of(log_format: str) -> _Lines:
    """An Apache LogFormat string as a pattern. Raises UsageError for one without a whole time."""
    times = ApacheTimes()

    def variable(found: re.Match[str]) -> str:
        argument, letter = found[1], found[2]
        if letter == "%":
            return "%"
        if letter == "t":
            return times.take(argument)
        if argument is not None:
            name = _WITH_ARGUMENT.get((argument.lower(), letter), "other")
        else:
            name = _VARIABLES.get(letter, "other")
        is_followed = found.string[found.end() : found.end() + 1]
        return f"${{{name}}}" if is_followed.isalnum() or is_followed == "_" else f"${name}"

    pattern = compile_log_format(_DIRECTIVE.sub(variable, log_format.replace('\\"', '"')), times.checks)
    moment = times.moment()
    if moment is None:
        raise UsageError(
            "--log-format tells no whole time, so arrivals cannot be had",
            hint="log %t, %{usec}t, or a time with day, month, year, hours, minutes and seconds",
        )
    return _Lines(log_format, pattern, moment)
